-- The places of records that are asked for by name: by a claim (`claimed`), or as the one by which a term began. `beat`: not among words.
SELECT n.g, n.offset, n.claimed, w.offset IS NULL AS beat FROM (
  SELECT g, ref AS offset, bool_or(claimed) AS claimed FROM (
    SELECT g, ref, true AS claimed FROM {words} WHERE cause = 'claim' AND ref IS NOT NULL
    UNION ALL SELECT g, offset, false FROM {facts} WHERE kind = 'gained')
  GROUP BY g, ref) n LEFT JOIN {words} w ON w.g = n.g AND w.offset = n.offset
