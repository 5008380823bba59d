-- Each row of the sink with the term that its token belongs to: tokens are unique in a group.
SELECT w.role, w.token, w.at_ms, w.key, w.seq, w.seat, w.member, w.ord,
       CASE WHEN w.ord.a = 0 THEN w.ord.c + w.ord.d END AS position,
       t.seat AS held, t.member AS holder, t.name AS holder_name, t.a_early, t.b_late,
       t.token IS NULL AND w.token >= {floor} AS unknown
FROM {writes} w
LEFT JOIN (SELECT b.role, b.token, max(b.seat) AS seat, max(b.member) AS member, max(m.name) AS name, min(b.a_early) AS a_early,
                  max(b.b_late) AS b_late
           FROM {believed} b LEFT JOIN {members} m ON m.member = b.member WHERE b.from_offset IS NOT NULL
           GROUP BY b.role, b.token) t ON t.role = w.role AND t.token = w.token
