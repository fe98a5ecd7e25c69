for $f in document("doc.xml")//section[@id<=2]//figure where $f/title = "XML processing" return <figure> { $f/image } </figure>
