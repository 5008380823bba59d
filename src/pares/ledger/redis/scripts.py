"""What the server does by itself: Lua, each script from its first line to its last without anybody in between.

**Places.** Entry n of a partition stands at the id `(n+1)-0` of its stream. So offsets are integers of our own, which begin
at 0 and leave no holes, and a place is found as quickly as any id; ids that the server makes up, of its clock, could do
neither. The next offset stands in a hash, the *log key*, with what else there is to know of the log. An entry's fields: `t`,
the server's microseconds; `x`, a random word that its append has brought along; `l`, the offset and the word of the entry
before it; `p`.

**Epochs.** A server that was started again, or that was a replica until now, may lack what its predecessor acknowledged. The
log key says by which run of which server the last entry came. The first append by another run leaves a hole: it goes on at the
microseconds since the log was made, and at least a million further. No log takes an entry each microsecond, so what may have
been lost had lower offsets, however much it was, and no offset is given out twice, and with it no token. (As with a log that
is made anew, the promoted server's clock must not be behind the other's.)

**Anchors.** A request says what its handle has seen last: the log's id, an offset, the word there. If that is not in the
log, and was not trimmed either, the script does nothing and answers `lost` (R12).

**All or nothing.** An error in a script leaves what it has written so far. So what may fail comes first: the notice is
published, and the log key is written as it was. From there on the user has the rights, memory is not looked at again, and
the entries go in.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final

from pares.ledger.base import MAX_READ_BYTES

LAYOUT: Final = 1
JUMP: Final = 1 << 20
"""Offsets that an append leaves out, at least, when the server is another run than that of the last one."""

_COMMON: Final = """
local function id(n) return string.format('%.0f-0', n + 1) end
local function offset(entry) return tonumber(string.match(entry[1], '^(%d+)')) - 1 end
local function value(entry, name)
  local fields = entry[2]
  for i = 1, #fields, 2 do if fields[i] == name then return fields[i + 1] end end
  return ''
end
local function run()
  return (string.match(redis.call('INFO', 'server'), 'run_id:(%x+)') or '') .. '/'
      .. (string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)') or '')
end
local function now()
  local t = redis.call('TIME')
  return tonumber(t[1]) * 1000000 + tonumber(t[2])
end
-- What is known of the log, and what is wrong with it: 'gone', 'none' (no such partition), 'lost'.
local function look(p, known, at, word)
  local m = redis.call('HMGET', KEYS[1], 'layout', 'id', 'partitions', 'born', 'next:' .. p, 'last:' .. p, 'run:' .. p)
  local log = {id = m[2], partitions = m[3], born = tonumber(m[4]), next = tonumber(m[5]), last = m[6], run = m[7]}
  if not m[1] or not m[2] then return nil, 'gone' end
  if not log.next then return log, 'none' end
  if log.last ~= '' and redis.call('EXISTS', KEYS[2]) == 0 then return nil, 'gone' end
  at = tonumber(at)
  if known ~= log.id or at < 0 or log.last == string.format('%.0f:', at) .. word then return log end
  if at >= log.next then return log, 'lost' end
  local found = redis.call('XRANGE', KEYS[2], id(at), id(at))[1]
  if found then
    if value(found, 'x') == word then return log end
    return log, 'lost'
  end
  local first = redis.call('XRANGE', KEYS[2], '-', id(log.next), 'COUNT', 1)[1]
  if first and offset(first) < at then return log, 'lost' end
  return log
end
local function answer(status, log, ...)
  if not log then return {status, '', '0', '0'} end
  return {status, log.id, log.partitions, log.next and string.format('%.0f', log.next) or '0', ...}
end
"""
_LOOK: Final = (
    "local log, wrong = look(ARGV[1], ARGV[2], ARGV[3], ARGV[4])\nif wrong then return answer(wrong, log) end\n"
)


@dataclass(frozen=True)
class Script:
    """A script, and the name by which the server knows it once it has seen it."""

    text: str
    sha: str


def _script(text: str, *, looks: bool = True) -> Script:
    whole = _COMMON + (_LOOK if looks else "") + text
    return Script(whole, hashlib.sha1(whole.encode(), usedforsecurity=False).hexdigest())


APPEND: Final = _script(
    f"""
    -- ARGV: partition, anchor (3), word, channel or '', payloads
    if ARGV[6] ~= '' then redis.call('PUBLISH', ARGV[6], '') end
    redis.call('HSET', KEYS[1], 'run:' .. ARGV[1], log.run)
    local at, us, present = log.next, now(), run()
    if log.run ~= present then at = math.max(at + {JUMP}, us - log.born) end
    local first, last = at, log.last
    for i = 7, #ARGV do
      redis.call('XADD', KEYS[2], id(at), 't', string.format('%.0f', us), 'x', ARGV[5], 'l', last, 'p', ARGV[i])
      last = string.format('%.0f:', at) .. ARGV[5]
      at = at + 1
    end
    redis.call('HSET', KEYS[1], 'next:' .. ARGV[1], string.format('%.0f', at), 'last:' .. ARGV[1], last,
        'run:' .. ARGV[1], present)
    log.next = at
    return answer('ok', log, string.format('%.0f', first))
    """
)

READ: Final = _script(
    f"""
    -- ARGV: partition, anchor (3), offset, how many
    local at, left, size, found = tonumber(ARGV[5]), tonumber(ARGV[6]), 0, {{}}
    while left > 0 and at < log.next do
      local part = redis.call('XRANGE', KEYS[2], id(at), id(log.next - 1), 'COUNT', math.min(left, 16))
      for _, entry in ipairs(part) do
        local payload = value(entry, 'p')
        size = size + #payload
        if #found > 0 and size > {MAX_READ_BYTES} then left = 0; break end
        at = offset(entry)
        found[#found + 1] = {{string.format('%.0f', at), value(entry, 't'), value(entry, 'x'), value(entry, 'l'), payload}}
        at, left = at + 1, left - 1
      end
      if #part == 0 then break end
    end
    return answer('ok', log, found)
    """
)

BOUNDS: Final = _script(
    """
    -- ARGV: partition, anchor (3)
    local first = log.last ~= '' and redis.call('XRANGE', KEYS[2], '-', id(log.next - 1), 'COUNT', 1)[1]
    local start = log.next
    if first then
      -- It begins where the entry before it ends, also across a hole; what has none before it is the log's first.
      local before = string.match(value(first, 'l'), '^(%d+):')
      start = before and tonumber(before) + 1 or 0
    end
    if log.last == '' then start = 0 end
    return answer('ok', log, string.format('%.0f', start))
    """
)

TRIM: Final = _script(
    """
    -- ARGV: partition, anchor (3), the lowest offset that stays
    redis.call('XTRIM', KEYS[2], 'MINID', '=', id(tonumber(ARGV[5])))
    return answer('ok', log)
    """
)

MAKE: Final = _script(
    f"""
    -- KEYS: the log key. ARGV: the key of partition 0, partitions, a new id, whether to grow what is there
    local function key(p) return p == 0 and ARGV[1] or ARGV[1] .. ':' .. p end
    local m = redis.call('HMGET', KEYS[1], 'layout', 'id', 'partitions', 'born')
    local there, wanted, whole = tonumber(m[3]) or 0, tonumber(ARGV[2]), m[1] and m[2]
    if not whole and redis.call('EXISTS', KEYS[1]) == 1 then return {{'foreign', KEYS[1]}} end
    if m[1] and m[1] ~= '{LAYOUT}' then return {{'newer', m[1]}} end
    for p = 0, there - 1 do
      local last = redis.call('HMGET', KEYS[1], 'last:' .. p)[1]
      if last ~= '' and redis.call('EXISTS', key(p)) == 0 then whole = false end
    end
    if there > 0 and not whole then
      -- A part of it was deleted or evicted: what is left is no log any more.
      for p = 0, there - 1 do redis.call('DEL', key(p)) end
      redis.call('DEL', KEYS[1])
      there = 0
    end
    if whole and (ARGV[4] == '0' or wanted <= there) then return {{'ok', m[2], m[3]}} end
    for p = there, wanted - 1 do
      if redis.call('EXISTS', key(p)) == 1 then return {{'foreign', key(p)}} end
    end
    local present = run()
    if not whole then
      redis.call('HSET', KEYS[1], 'layout', '{LAYOUT}', 'id', ARGV[3], 'born', string.format('%.0f', now()))
    end
    for p = there, wanted - 1 do
      redis.call('HSET', KEYS[1], 'next:' .. p, '0', 'last:' .. p, '', 'run:' .. p, present)
    end
    redis.call('HSET', KEYS[1], 'partitions', ARGV[2])
    return {{whole and 'ok' or 'made', whole and m[2] or ARGV[3], ARGV[2]}}
    """,
    looks=False,
)
