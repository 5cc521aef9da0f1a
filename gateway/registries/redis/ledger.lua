-- The ledger's steps on one shard, each one atomic (protocol, rules 2 to 9, 13 and 15).
--
-- KEYS[1] marks    hash: scope -> "era token burnt hHOLDER", then a line "id era token" for each registration
-- KEYS[2] members  hash: generation -> "replica beat incarnation"
-- KEYS[3] vouched  string: the incarnation on which a grace has been counted
-- KEYS[4] inboxes  prefix of the lists of notices; the generation is appended (the same slot)
-- KEYS[5] audit    stream of resets
-- ARGV[1] the step, then its arguments.
--
-- A registration counts while its generation is a member: the end of a generation ends all of them at
-- once, and what is left of them is swept with the scope's next step. Tokens are compared as strings,
-- because a number of Lua is a double and wrong above 2^53. Every write is in a script, so that the
-- engine's own identity is read in the same step (INFO is allowed in scripts; redis.io, "Scripting").

local MAX = '9223372036854775807'

local function above(a, b)
  return #a > #b or (#a == #b and a > b)
end

local function next_of(token)
  local digits, carry = {}, true
  for i = #token, 1, -1 do
    local digit = token:byte(i) - 48
    if carry then
      digit = digit + 1
      carry = digit == 10
      if carry then digit = 0 end
    end
    table.insert(digits, 1, digit)
  end
  if carry then table.insert(digits, 1, 1) end
  return table.concat(digits)
end

local function sum(a, b)
  local digits, carry = {}, 0
  for i = 0, math.max(#a, #b) - 1 do
    local digit = carry
    if i < #a then digit = digit + a:byte(#a - i) - 48 end
    if i < #b then digit = digit + b:byte(#b - i) - 48 end
    carry = digit >= 10 and 1 or 0
    table.insert(digits, 1, digit % 10)
  end
  if carry == 1 then table.insert(digits, 1, 1) end
  return table.concat(digits)
end

-- Marks are ordered by era, token, burnt.
local function below(a, b)
  if a.era ~= b.era then return above(b.era, a.era) end
  if a.token ~= b.token then return above(b.token, a.token) end
  return a.burnt == '0' and b.burnt == '1'
end

local function incarnation()
  local run = redis.call('INFO', 'server'):match('run_id:(%w+)')
  local history = redis.call('INFO', 'replication'):match('master_replid:(%w+)')
  return run .. '.' .. history
end

local members = {}
local function member(generation)
  if members[generation] == nil then
    local raw = redis.call('HGET', KEYS[2], generation)
    if raw then
      local replica, beat, joined = raw:match('^(%S+) (%d+) (%S+)$')
      members[generation] = {replica = replica, beat = beat, joined = joined}
    else
      members[generation] = false
    end
  end
  return members[generation]
end

local function is_current(generation)
  local found = member(generation)
  return found and found.joined == incarnation()
end

local function owner(id)
  return id:match('^(.*)%.[^.]*$') or id
end

local function load(scope)
  local raw = redis.call('HGET', KEYS[1], scope)
  if not raw then return {era = '1', token = '0', burnt = '0', holder = '', entries = {}, new = true} end
  local record = {entries = {}}
  for line in raw:gmatch('[^\n]+') do
    if not record.era then
      record.era, record.token, record.burnt, record.holder = line:match('^(%d+) (%d+) ([01]) h(.*)$')
    else
      local id, era, token = line:match('^(%S+) (%d+) (%d+)$')
      if member(owner(id)) then
        record.entries[#record.entries + 1] = {id = id, era = era, token = token, burnt = '0'}
      end
    end
  end
  return record
end

local function save(scope, record)
  local lines = {record.era .. ' ' .. record.token .. ' ' .. record.burnt .. ' h' .. record.holder}
  for _, entry in ipairs(record.entries) do
    lines[#lines + 1] = entry.id .. ' ' .. entry.era .. ' ' .. entry.token
  end
  redis.call('HSET', KEYS[1], scope, table.concat(lines, '\n'))
end

local function lower(record, mark)
  local found = {}
  for _, entry in ipairs(record.entries) do
    if below(entry, mark) then found[#found + 1] = entry end
  end
  return found
end

local function add_mark(answer, mark)
  answer[#answer + 1] = mark.era
  answer[#answer + 1] = mark.token
  answer[#answer + 1] = mark.burnt
  answer[#answer + 1] = mark.holder
end

local function add_entries(answer, entries)
  for _, entry in ipairs(entries) do
    local generation = owner(entry.id)
    answer[#answer + 1] = entry.id
    answer[#answer + 1] = member(generation).replica
    answer[#answer + 1] = generation
    answer[#answer + 1] = entry.era
    answer[#answer + 1] = entry.token
  end
end

local function tell(scope, mark, entries)
  local told = {}
  for _, entry in ipairs(entries) do
    local generation = owner(entry.id)
    if not told[generation] then
      told[generation] = true
      local text = mark.era .. ' ' .. mark.token .. ' ' .. mark.burnt .. ' h' .. mark.holder .. '\n' .. scope
      redis.call('RPUSH', KEYS[4] .. generation, text)
      redis.call('PUBLISH', KEYS[4] .. generation, '')
    end
  end
end

local steps = {}

function steps.identity()
  return {incarnation(), redis.call('GET', KEYS[3]) or ''}
end

function steps.vouch(expected)
  if expected == incarnation() then redis.call('SET', KEYS[3], expected) end
  return {}
end

function steps.join(replica, generation)
  redis.call('HSET', KEYS[2], generation, replica .. ' 0 ' .. incarnation())
  return {}
end

-- On one shard alone; an entry of a generation that is no member there counts for nothing.
function steps.agree(generation, rules)
  if not is_current(generation) then return {'ended'} end
  local all = redis.call('HGETALL', KEYS[6])
  for i = 1, #all, 2 do
    if not member(all[i]) then
      redis.call('HDEL', KEYS[6], all[i])
    elseif all[i] ~= generation and all[i + 1] ~= rules then
      return {'differs'}
    end
  end
  redis.call('HSET', KEYS[6], generation, rules)
  return {'agreed'}
end

function steps.beat(replica, generation, beat)
  local found = member(generation)
  if not found or found.replica ~= replica or found.joined ~= incarnation() then return {'ended'} end
  if above(beat, found.beat) then
    redis.call('HSET', KEYS[2], generation, replica .. ' ' .. beat .. ' ' .. found.joined)
  end
  return {'beaten'}
end

function steps.members()
  local answer = {}
  local all = redis.call('HGETALL', KEYS[2])
  for i = 1, #all, 2 do
    local replica, beat = all[i + 1]:match('^(%S+) (%d+) ')
    answer[#answer + 1] = replica
    answer[#answer + 1] = all[i]
    answer[#answer + 1] = beat
  end
  return answer
end

-- With a beat: only if the generation still stands at it.
function steps.finish(replica, generation, beat)
  local found = member(generation)
  if not found then return {'gone'} end
  if beat ~= '' and (found.replica ~= replica or found.beat ~= beat) then return {'alive'} end
  redis.call('HDEL', KEYS[2], generation)
  redis.call('DEL', KEYS[4] .. generation)
  return {'ended'}
end

local function give_up(record, generation, ids)
  local gone, kept = {}, {}
  for _, id in ipairs(ids) do gone[id] = true end
  for _, entry in ipairs(record.entries) do
    local goes = gone[entry.id] and owner(entry.id) == generation and below(entry, record)
    if not goes then kept[#kept + 1] = entry end
  end
  record.entries = kept
end

-- `max_jump` is empty where a raise may be of any size; the first mark of an era always may. Behind
-- it are the ids of own registrations that go with the claim, if it holds.
function steps.claim(scope, era, token, holder, generation, id, max_jump, ...)
  if not is_current(generation) then return {'ended'} end
  local record = load(scope)
  if era ~= record.era then return {'era', record.era} end
  local issued = token == ''
  if issued then token = next_of(record.token) end
  if above(record.token, token) or above(token, MAX) then
    local answer = {'stale'}
    add_mark(answer, record)
    return answer
  end
  local same = token == record.token
  local two_hands = record.holder ~= '' and holder ~= '' and record.holder ~= holder
  if same and (record.burnt == '1' or two_hands) then
    local first = record.burnt == '0'
    if first then
      record.burnt, record.holder = '1', ''
      save(scope, record)
      tell(scope, record, lower(record, record))
    end
    local answer = {'burnt', first and '1' or '0'}
    add_mark(answer, record)
    return answer
  end
  local bounded = max_jump ~= '' and not issued and record.token ~= '0'
  if bounded and above(token, sum(record.token, max_jump)) then
    local answer = {'implausible'}
    add_mark(answer, record)
    return answer
  end
  local answer = {'claimed', same and '0' or '1'}
  add_mark(answer, record)
  if same then
    if record.holder == '' then record.holder = holder end
  else
    record.token, record.burnt, record.holder = token, '0', holder
  end
  local known = false
  for _, entry in ipairs(record.entries) do known = known or entry.id == id end
  if not known then
    record.entries[#record.entries + 1] = {id = id, era = record.era, token = record.token, burnt = '0'}
  end
  give_up(record, generation, {...})
  save(scope, record)
  local under = lower(record, record)
  tell(scope, record, under)
  add_mark(answer, record)
  add_entries(answer, under)
  return answer
end

function steps.pending(scope, era, token, burnt, generation)
  if not is_current(generation) then return {'ended'} end
  local answer = {'pending'}
  add_entries(answer, lower(load(scope), {era = era, token = token, burnt = burnt}))
  return answer
end

local function remove(scope, goes)
  local record = load(scope)
  if record.new then return {} end
  local kept = {}
  for _, entry in ipairs(record.entries) do
    if not goes(entry) then kept[#kept + 1] = entry end
  end
  if #kept < #record.entries then
    record.entries = kept
    save(scope, record)
  end
  return {}
end

function steps.yield(scope, generation, era, token, burnt)
  local mark = {era = era, token = token, burnt = burnt}
  return remove(scope, function(entry) return owner(entry.id) == generation and below(entry, mark) end)
end

function steps.forget(scope, id)
  return remove(scope, function(entry) return entry.id == id end)
end

function steps.recall(scope, era, token, burnt, holder)
  local record = load(scope)
  if below(record, {era = era, token = token, burnt = burnt}) then
    record.era, record.token, record.burnt, record.holder = era, token, burnt, holder
    save(scope, record)
  end
  local answer = {}
  add_mark(answer, record)
  return answer
end

function steps.reset(scope, era, reason)
  local record = load(scope)
  if record.era ~= era then return {'not'} end
  if #record.entries > 0 then
    if record.token ~= MAX or record.burnt ~= '1' then
      record.token, record.burnt, record.holder = MAX, '1', ''
      save(scope, record)
      tell(scope, record, record.entries)
    end
    return {'closed'}
  end
  redis.call('XADD', KEYS[5], '*', 'scope', scope, 'action', 'reset', 'reason', reason,
    'era', record.era, 'token', record.token)
  record.era, record.token, record.burnt, record.holder = next_of(record.era), '0', '0', ''
  save(scope, record)
  local answer = {'done'}
  add_mark(answer, record)
  return answer
end

function steps.scope(scope)
  local record = load(scope)
  if record.new then return {} end
  local answer = {}
  add_mark(answer, record)
  answer[#answer + 1] = tostring(#record.entries)
  return answer
end

-- A page in the order of the hash's own cursor (redis.io, SCAN): none left out, some may come twice.
function steps.scopes(cursor, count)
  local found = redis.call('HSCAN', KEYS[1], cursor, 'COUNT', count)
  local answer = {found[1]}
  for i = 1, #found[2], 2 do
    local scope = found[2][i]
    local record = load(scope)
    answer[#answer + 1] = scope
    add_mark(answer, record)
    answer[#answer + 1] = tostring(#record.entries)
  end
  return answer
end

local arguments = {}
for i = 2, #ARGV do arguments[#arguments + 1] = ARGV[i] end
return steps[ARGV[1]](unpack(arguments))
