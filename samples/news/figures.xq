<figures>
{
  for $s in //section
  let $f := $s//figure
  where count($f) > 0
  order by count($f) descending
  return
    <section figures="{count($f)}">
      {$s/headline}
      {$f/headline}
    </section>
}
</figures>
