-- Acknowledge what is done, then take what has come, tracking each message in the same step: nothing is ever in between.
--
-- KEYS  unacked hash, unacked index, then the lists in the order in which they are looked at
-- ARGV  now in Unix seconds, how many to take at most, then the delivery tags to acknowledge
-- Returns for each message: the number of its list, its delivery tag or "" if it cannot be tracked, its bytes. Fewer
-- messages than were asked for were all that was there.
--
-- When nothing is left, the lengths are read, which makes the server tell a client that tracks keys of the next change.
local CHUNK = 500

local function each_chunk(values, first, use)
    for start = first, #values, CHUNK do
        use(unpack(values, start, math.min(start + CHUNK - 1, #values)))
    end
end

each_chunk(ARGV, 3, function(...)
    redis.call('HDEL', KEYS[1], ...)
    redis.call('ZREM', KEYS[2], ...)
end)

-- Return the tag under which kombu finds the message again, and what it keeps of it; nothing for what is no message.
local function tracked(item)
    local decoded, message = pcall(cjson.decode, item)
    local properties = decoded and type(message) == 'table' and message.properties
    local delivery = type(properties) == 'table' and properties.delivery_info
    if type(delivery) ~= 'table' or type(properties.delivery_tag) ~= 'string' then
        return nil
    end
    if type(delivery.exchange) ~= 'string' or type(delivery.routing_key) ~= 'string' then
        return nil
    end
    local route = cjson.encode(delivery.exchange) .. ',' .. cjson.encode(delivery.routing_key)
    return properties.delivery_tag, '[' .. item .. ',' .. route .. ']'
end

local taken, kept, scores = {}, {}, {}
local room = tonumber(ARGV[2])
for list = 3, #KEYS do
    -- Once something was written, a full server lets the rest of the script pass.
    local items = room > 0 and redis.call('RPOP', KEYS[list], room) or {}
    room = room - #items
    for _, item in ipairs(items) do
        local tag, entry = tracked(item)
        if tag then
            kept[#kept + 1], kept[#kept + 2] = tag, entry
            scores[#scores + 1], scores[#scores + 2] = ARGV[1], tag
        end
        taken[#taken + 1], taken[#taken + 2], taken[#taken + 3] = list - 3, tag or '', item
    end
end
each_chunk(kept, 1, function(...) redis.call('HSET', KEYS[1], ...) end)
each_chunk(scores, 1, function(...) redis.call('ZADD', KEYS[2], ...) end)

if room > 0 then
    for list = 3, #KEYS do
        redis.call('LLEN', KEYS[list])
    end
end
return taken
