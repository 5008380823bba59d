-- What is no broken promise by itself, and says how far the log and those who write it can be relied on.
WITH worlds AS (SELECT g, token AS base FROM {words} WHERE cause = 'genesis' AND counted)
SELECT g, 'offset_hole' AS kind, CAST(NULL AS STRING) AS member, offset AS from_offset, ref - 1 AS to_offset, ref - offset AS count,
       'no entries at these offsets' AS detail FROM {facts} WHERE kind = 'hole'
UNION ALL
SELECT g, 'clock_step', NULL, offset, offset, 1, concat('stamped ', clock_ms - at_ms, ' ms before a record that stands before it')
FROM {facts} WHERE kind = 'step'
UNION ALL
SELECT g, 'lost_numbers', member, before_at, offset, n - before - 1, concat('numbers ', before + 1, ' to ', n - 1, ' are nowhere')
FROM {numbers} WHERE gap
UNION ALL
SELECT g, 'twin', member, min(offset), max(offset), count(DISTINCT hash), concat('number ', n, ' was given to different records')
FROM {twins} GROUP BY g, member, base, n HAVING count(DISTINCT hash) > 1
UNION ALL
SELECT g, 'uncounted_evidence', member, min(offset), max(offset), count(*),
       concat('records that did not count: ', concat_ws(', ', array_sort(collect_set(cause))))
FROM {uncounted} GROUP BY g, member
UNION ALL
SELECT r.g, 'stranger_world', NULL, min(r.offset), max(r.offset), count(*),
       concat('records under base ', r.base, ', which was never in force')
FROM {uncounted} r LEFT ANTI JOIN worlds w ON w.g = r.g AND w.base = r.base
WHERE EXISTS (SELECT 1 FROM worlds w WHERE w.g = r.g) GROUP BY r.g, r.base
UNION ALL
SELECT w.g, 'unmatched_fault', f.member, NULL, NULL, count(*), concat(f.fault, ' at ', min(f.at_ms), ': no member has that id or name')
FROM {faults} f CROSS JOIN {groups} w
WHERE NOT EXISTS (SELECT 1 FROM {members} m WHERE m.g = w.g AND m.member = f.member)
  AND NOT EXISTS (SELECT 1 FROM {members} m WHERE m.g = w.g AND m.name = f.member) GROUP BY w.g, f.member, f.fault
UNION ALL
SELECT w.g, 'unmatched_fault', f.member, NULL, NULL, count(*), concat(f.fault, ' is no fault that is known: ', {kinds})
FROM {faults} f CROSS JOIN {groups} w WHERE NOT array_contains(split({kinds}, ', '), f.fault) GROUP BY w.g, f.member, f.fault
UNION ALL
SELECT g, 'defect', other, offset, offset, 1, 'a snapshot unlike what its place in the log decides' FROM {facts} WHERE kind = 'defect'
