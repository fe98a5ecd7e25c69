declare namespace o = "urn:example:orders";
declare namespace inv = "urn:example:invoice";

for $line in /o:order/o:line
where $line/o:quantity > 3 or $line/o:price > 200
order by number($line/o:price) descending
return
  <inv:item order="{$line/../@number}" line="{$line/@pos}">
    {$line/o:article}
    <inv:quantity>{string($line/o:quantity)}</inv:quantity>
  </inv:item>
