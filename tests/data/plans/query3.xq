for $s in document("doc.xml")//section where $s/title="XML" and $s/figure/title = "XML processing" return <section>{ $s//section//title }{ $s/figure }</section>
