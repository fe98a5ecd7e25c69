for $s in //story
where contain($s/headline, "ferr") and $s/@urgency < 3
return <hit>{$s/headline}</hit>
