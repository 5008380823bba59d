-- R4 (b): a belief rests on a record that was sent within the lease. The last record that stood in the log before the belief ended
-- was sent before it stood there; a stopwatch that is as slow as `drift` allows makes the lease session / (1 + drift) long.
SELECT g, CASE WHEN stop_ms > bound + step_ms THEN 'certain' ELSE 'possible' END AS verdict,
       role, seat, token AS token_a, CAST(NULL AS BIGINT) AS token_b, member AS member_a, CAST(NULL AS STRING) AS member_b,
       rest_ms AS from_ms, stop_ms AS to_ms, array(from_offset) AS offsets,
       concat(member, ' says that it led up to ', stop_ms - rest_ms, ' ms after its last record before that, with a session of ',
              session_ms, ' ms') AS evidence
FROM (SELECT *, rest_ms + CAST(ceil(session_ms / (1 + drift)) AS BIGINT) + overlap_ms + 2 * {error} + {resolution} AS bound
      FROM {terms} WHERE rest_ms IS NOT NULL AND stop_ms IS NOT NULL AND session_ms IS NOT NULL)
WHERE stop_ms > bound
