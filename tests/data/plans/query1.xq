for $s in document("doc.xml")//section where $s//figure/title = "XML processing" return <section>{ $s/title }{ $s//figure }</section>
