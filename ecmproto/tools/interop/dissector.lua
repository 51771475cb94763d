-- Congestion management of layer 2 for Wireshark and tshark, 4.0 and later (Lua 5.2 to 5.4),
-- made by ecmproto @VERSION@ from its formats (ecmproto wireshark print), not to be changed by hand.
--@TITLES@

local ecmproto = Proto("ecmproto", "Congestion management")

-- Wireshark's functions, each looked up once: a call of a method looks for it by its name every time.
local function method(class, name)
    local found, known = pcall(function() return class[name] end)
    return found and known or function(object, ...) return object[name](object, ...) end
end
local len, reported_len = method(Tvb, "len"), method(Tvb, "reported_len")
local offset, range = method(Tvb, "offset"), method(Tvb, "range")
local octets_of = method(Tvb, "raw")
local uint, int = method(TvbRange, "uint"), method(TvbRange, "int")
local tvb_of, ether = method(TvbRange, "tvb"), method(TvbRange, "ether")
local add, append_text = method(TreeItem, "add"), method(TreeItem, "append_text")
local referenced, flag = method(TreeItem, "referenced"), method(TreeItem, "add_proto_expert_info")
local call, try = method(Dissector, "call"), method(DissectorTable, "try")
local append, prepend = method(Column, "append"), method(Column, "prepend")
local byte, find, format, floor = string.byte, string.find, string.format, math.floor
local tostring, tonumber, pcall, ipairs, pairs = tostring, tonumber, pcall, ipairs, pairs

local ethertypes = DissectorTable.get("ethertype")
local as_ethernet = Dissector.get("eth_withoutfcs")
local as_llc = Dissector.get("llc")
local as_data = Dissector.get("data")

local UNBOUNDED = 4294967296    -- octets of a frame of unknown length
local UNKNOWN_LENGTH = 2147483648
local MOST_LENGTH = 1500        -- up to here, what stands for an EtherType is a length (802.3 3.2.6)
local LEAST_ETHERTYPE = 1536
local LEAST_FRAME = 60          -- shorter frames are padded
local MOST_NESTED = 24          -- headers of others between ours: Lua has no room for more than some hundred calls

-- ------------------------------------------------------------------------------------------ values as text

-- Numbers of a layer's octets, a string, from the octet i on, the first of which is 1.
local function word(s, i)
    local high, low = byte(s, i, i + 1)
    return high * 256 + low
end

local function long(s, i)
    local a, b, c, d = byte(s, i, i + 3)
    return ((a * 256 + b) * 256 + c) * 256 + d
end

local function number(s, i, last)
    local value = 0
    for at = i, last do value = value * 256 + byte(s, at) end
    return value
end

local function signed_of(value, half)
    return value < half and value or value - 2 * half
end

local function mac(s, i) return format("%02x:%02x:%02x:%02x:%02x:%02x", byte(s, i, i + 5)) end

local function ipv4(s, i) return format("%d.%d.%d.%d", byte(s, i, i + 3)) end

-- The longest row of zeros, of two groups or more, the first of several, becomes "::" (RFC 5952).
local function ipv6(s, i)
    local groups, start, longest = {}, nil, 1
    for n = 0, 7 do groups[n + 1] = word(s, i + 2 * n) end
    for first = 1, 8 do
        local last = first
        while groups[last] == 0 do last = last + 1 end
        if last - first > longest then start, longest = first, last - first end
    end
    local text = {}
    for n = 1, 8 do text[n] = format("%x", groups[n]) end
    if not start then return table.concat(text, ":") end
    return table.concat(text, ":", 1, start - 1) .. "::" .. table.concat(text, ":", start + longest, 8)
end

local function cpid(s, i) return mac(s, i) .. "/" .. word(s, i + 6) end

local function signed(number) return format("%+d", number) end

local function hex(number) return format("0x%04x", number) end

-- Four digits of a number in the largest of the units of which there is one: pairs of size and name.
local function in_units(number, units)
    local rounded = tonumber(format("%.4g", number))
    for _, unit in ipairs(units) do
        if rounded >= unit[1] or unit[1] == 1 then
            local quotient = number / unit[1]
            if quotient < 1 and number > 0 then quotient = 1 end
            return format(quotient < 9999.5 and "%.4g %s" or "%.0f %s", quotient, unit[2])
        end
    end
end

local RATES = {{1e12, "Tb/s"}, {1e9, "Gb/s"}, {1e6, "Mb/s"}, {1e3, "kb/s"}, {1, "b/s"}}
local TIMES = {{3600e9, "h"}, {1e9, "s"}, {1e6, "ms"}, {1e3, "µs"}, {1, "ns"}}

local function capacity(kbps) return in_units(kbps * 1000, RATES) end

local function time(ns) return in_units(ns, TIMES) end

local function ticks(timestamp, unit) return time(timestamp * 2 ^ unit * 1000) end

local function is_source(tvb, pos, pinfo) return ether(range(tvb, pos, 6)) == pinfo.dl_src end

-- ------------------------------------------------------------------------------------------------- formats

local formats = {}              -- by their names
local mentioned = {}            -- the tags that the texts of messages name

local padding = ProtoField.bytes("eth.padding", "Padding")
local trailer = ProtoField.bytes("eth.trailer", "Trailer")

local malformed = ProtoExpert.new("ecmproto.malformed", "Malformed", expert.group.MALFORMED, expert.severity.ERROR)
local cut = ProtoExpert.new("ecmproto.cut", "Cut off by the capture", expert.group.UNDECODED, expert.severity.NOTE)
local suspicious = ProtoExpert.new("ecmproto.suspicious", "Suspicious", expert.group.PROTOCOL, expert.severity.WARN)
local reserved = ProtoExpert.new("ecmproto.reserved", "Not 0", expert.group.PROTOCOL, expert.severity.NOTE)
local nested = ProtoExpert.new("ecmproto.nested", "Too many headers", expert.group.UNDECODED, expert.severity.WARN)

local ETHERTYPES = @ETHERTYPES@

-- A name that Wireshark gives to something else becomes one of ours; fields keep their names.
local function protocol(name, title)
    local made, proto = pcall(Proto, name, title)
    return made and proto or Proto("ecmproto." .. name, title .. " (ecmproto)")
end

-- A format has, beside its name and title:
--   octets       of its fixed part
--   fields       {field, octet, octets, [what its value means], [its bits with names], [field for a length],
--                [function that returns its value, where a mask is too short]}
--   variable     {field, function that returns how many octets it should have}
--   zeros        {function that returns a value that should be 0, name}
--   limits       {function that returns a value, lowest, highest, what is needed, octet}
--   info         function that returns its part of the Info column, and tags_first where it follows the tags' parts
--   mentions     names of the tags that info mentions
--   next_at      octet of the EtherType, or length, of what follows
--   otherwise    name of the format of octets that cannot be this one
--   cpid_at, padded, showing, least, nonzero   how these are known
--   shows        name of the format with which the frame in its last field starts, and min_shown_octets octets of it
local enter

local function define(f)
    f.proto = protocol(f.name, f.title)
    local own = {}
    for _, each in ipairs(f.fields) do
        own[#own + 1] = each[1]
        for _, part in ipairs(each[5] or {}) do own[#own + 1] = part end
        own[#own + 1] = each[6]
    end
    for _, each in ipairs(f.variable or {}) do own[#own + 1] = each[1] end
    f.proto.fields = own
    function f.proto.dissector(tvb, pinfo, tree) return enter(f, tvb, pinfo, tree) end
    f.handle = Dissector.get(f.proto.name:lower())
    for name in pairs(f.mentions or {}) do mentioned[name] = true end
    formats[f.name] = f
    -- octets that are read: its fixed part, and the part that identifies it
    f.read = math.max(f.octets, f.cpid_at and f.cpid_at + 8 or 0, f.nonzero or 0)
    f.straight = f.tag and f.follows == "ethertype" and not (f.variable or f.zeros or f.limits or f.otherwise)
    f.plain = f.straight
    for _, each in ipairs(f.fields) do f.plain = f.plain and not (each[4] or each[5] or each[7]) end
end

@FORMATS@

-- Headers that Wireshark has: these are for truncated packets, which its own dissectors would call malformed,
-- since a plugin cannot inform them.

local ProtoField = setmetatable({}, {__index = function(_, kind)
    -- A single bit may be a boolean there; a field of yet another kind becomes one of ours.
    return function(name, label, shown, names, mask, blurb)
        local made, field = pcall(ProtoField[kind], name, label, shown, names, mask, blurb)
        if made then return field end
        local octets = kind:match("^uint(%d+)$")
        if octets then
            made, field = pcall(ProtoField.bool, name, label, tonumber(octets), nil, mask, blurb)
        end
        return made and field or ProtoField[kind]("ecmproto." .. name, label, shown, names, mask, blurb)
    end
end})

@HEADERS@

-- RoCE is Wireshark's too, except for its packets' congestion fields.

@ROCE@

local headers = {@BY_ETHERTYPE@}
local behind_ip = {@BY_PROTOCOL@}

ecmproto.fields = {padding, trailer}
ecmproto.experts = {malformed, cut, suspicious, reserved, nested}

-- What announces formats: a table of Wireshark, a value in it or the preference that has it, and which format
-- it is, or several by a selector.
local announcements = {
@ANNOUNCEMENTS@
}

-- -------------------------------------------------------------------------------------------- preferences

@PREFERENCES@
ecmproto.prefs.sampled = Pref.bool("Dissect sampled frames", false,
    "Dissect the frames inside CNMs and the proposals' messages; filters then select by their fields too")
ecmproto.prefs.unknown = Pref.bool("Show unknown experimental messages and tags", true,
    "Show frames with the experimental EtherTypes that are of no proposal here, if no other dissector has these")
ecmproto.prefs.roce = Pref.bool("Show RoCE's congestion fields", true,
    "Show FECN and BECN of the base transport header, and which packets are CNPs")
ecmproto.prefs.statistics = Pref.bool("Count messages by congestion point (tshark)", false,
    "Print at the end how many messages each congestion point sent: tshark -q -o ecmproto.statistics:TRUE")

-- --------------------------------------------------------------------------------------------- dissection

local announced = {}            -- what the EtherTypes that are in use announce
local scope = {}                -- of the frame that is dissected, or of the sampled one: what was seen in it
local depth = 0                 -- how many dissectors of others are between this file's functions
local tapped                    -- messages of the frame, where somebody counts them
local handles = {}              -- whether Wireshark has a dissector for an EtherType: passed to the next layers
local walk

-- Whether octets that are announced as a format are none of it; s are the first of them.
local function cannot_be(f, s, left, reach)
    if f.least then
        local first = find(s, "[^\0]")
        return left < f.octets or reach < f.least or (f.nonzero > 0 and (not first or first > f.nonzero))
    end
    local at = f.cpid_at
    if at and left >= at + 8 then
        local first = byte(s, at + 1)
        if first % 2 == 1 then return true end
        if first == 0 and (find(s, "[^\0]", at + 1) or at + 9) > at + 8 then return true end
    end
    if not f.padded or left <= f.padded and (reach <= f.padded or reach >= UNKNOWN_LENGTH) then return false end
    return not (left >= 2 and f.showing and f.showing[floor(byte(s, 2) / 16)])
end

-- The offset of a format at pos: in the frame, or in the sampled one.
local function place(tvb, pos) return offset(tvb) + pos - (scope.base or 0) end

local function fault(f, tvb, pos, needed, got)
    return format("%s at octet %d: expected %s, got %s", f.name, place(tvb, pos), needed, got)
end

local function octets_text(number) return number == 1 and "1 octet" or format("%d octets", number) end

-- What is wrong with a sampled frame of too few octets.
local function short_sample(f, s, tvb, pos, left, reach)
    local shown = reach - f.octets
    if f.min_shown_octets and shown < f.min_shown_octets and left >= 2 and f.showing[floor(byte(s, 2) / 16)] then
        local needed = octets_text(f.min_shown_octets) .. " of the sampled frame"
        return fault(f, tvb, pos + f.octets, needed, format("%d octets", shown))
    end
end

local function add_value(item, each, s, at, visible)
    local value = each[7] and each[7](s)
    local own
    if value then
        own = add(item, each[1], at, UInt64.new(value % 4294967296, floor(value / 4294967296)))
    else
        own = add(item, each[1], at)
    end
    local meaning = each[4]
    if meaning and visible then
        local said = meaning(at)
        if said then append_text(own, said) end
    end
    if each[5] then
        for _, part in ipairs(each[5]) do add(own, part, at) end
    end
    return own
end

local function part_referenced(item, each)
    if each[5] then
        for _, part in ipairs(each[5]) do
            if referenced(item, part) then return true end
        end
    end
    return false
end

-- Add a layer's item with its fields, or with the requested ones.
local function add_layer(f, s, tvb, pos, stop, captured, tree)
    local item, visible = add(tree, f.proto, range(tvb, pos, stop - pos)), tree.visible
    for _, each in ipairs(f.fields) do
        if each[6] then
            local known = word(s, each[2] + 1) <= MOST_LENGTH and each[6] or each[1]
            if visible or referenced(item, known) then add(item, known, range(tvb, pos + each[2], 2)) end
        elseif visible or referenced(item, each[1]) or part_referenced(item, each) then
            add_value(item, each, s, range(tvb, pos + each[2], each[3]), visible)
        end
    end
    if f.variable then
        local start = pos + f.octets
        for _, each in ipairs(f.variable) do
            local last = start + each[2](s, captured - start)
            if last > captured then last = captured end
            if last > start and (visible or referenced(item, each[1])) then
                add(item, each[1], range(tvb, start, last - start))
            end
            if last > start then start = last end
        end
    end
    return item
end

-- Add the octets after the last layer, as Wireshark does after its own.
local function add_tail(tvb, pos, captured, tree)
    if pos >= captured or not (referenced(tree, padding) or referenced(tree, trailer)) then return end
    local split = LEAST_FRAME - place(tvb, pos)
    if split > captured - pos then split = captured - pos end
    if split > 0 and find(octets_of(tvb, pos, split), "[^\0]") then split = 0 end
    if split > 0 then
        add(tree, padding, range(tvb, pos, split))
        pos = pos + split
    end
    if pos < captured then add(tree, trailer, range(tvb, pos, captured - pos)) end
end

-- Show octets of no format; without a tree there is nothing to show.
local function as_rest(tvb, pos, captured, pinfo, tree)
    if pos < captured and tree.text then call(as_data, tvb_of(range(tvb, pos, captured - pos)), pinfo, tree) end
end

-- Whether a packet after headers, of which the first is f, is longer than its captured part.
local function is_cut(f, tvb)
    local captured, pos = len(tvb), 0
    while f do
        local left = captured - pos
        if f.select then f = left >= 2 and f.by[f.select(octets_of(tvb, pos, 2))] end
        if not f or left < f.octets then return true end
        local s = octets_of(tvb, pos, f.octets)
        if f.total then return f.total(s) > left end
        if not f.next_at then return false end
        local value = word(s, f.next_at + 1)
        pos = pos + f.octets
        f = announced[value] or headers[value]
    end
    return false
end

-- Let Wireshark dissect what an EtherType or length announces; return its kind and text where it has none.
local function follow(value, tvb, pos, captured, reach, pinfo, tree)
    local left = captured - pos
    if value <= MOST_LENGTH then
        local cut_off = value < left
        local inner = tvb_of(range(tvb, pos, cut_off and value or left))
        if len(inner) > 0 then pcall(call, as_llc, inner, pinfo, tree) end
        if cut_off then add_tail(tvb, pos + value, captured, tree) end
        if value > reach - pos then
            flag(add(tree, ecmproto, range(tvb, pos, left)), malformed,
                format("needed %d octets, got %d", value, reach - pos))
        end
        return
    end
    local handled = handles[value]
    if not handled and value >= LEAST_ETHERTYPE then
        handled = ethertypes:get_dissector(value) ~= nil
        handles[value] = handled
    end
    if left == 0 then
        if handled and reach == pos then
            flag(add(tree, ecmproto, range(tvb, pos, 0)), malformed, "nothing follows the EtherType")
        end
    elseif handled then
        local inner = tvb_of(range(tvb, pos, left))
        pcall(try, ethertypes, value, inner, pinfo, tree)
        local shrunk = reported_len(inner)
        if shrunk < left then add_tail(tvb, pos + shrunk, captured, tree) end
        return
    else
        as_rest(tvb, pos, captured, pinfo, tree)
    end
    return hex(value), left > 0 and octets_text(left) or ""
end

-- What a sampled frame's headers change of the message's.
local RESTORED = {"src", "dst", "net_src", "net_dst", "src_port", "dst_port", "dl_src", "dl_dst"}

-- Dissect the frame that a message shows; return its text.
local function add_sampled(f, tvb, pos, start, stop, pinfo, item, wanted)
    local shown = tvb_of(range(tvb, start, stop - start))
    local of = "of "
    if f.shows == "eth" then
        local octets = stop - start
        if octets >= 12 and not (ether(range(shown, 6, 6)) == pinfo.dl_dst) then
            of = format("of %s [suspicious: the message is for %s] ", mac(octets_of(shown, 6, 6), 1), tostring(pinfo.dl_dst))
            flag(add(item, ecmproto, range(shown, 6, 6), "Source of the sampled frame"), suspicious,
                "the sampled frame's source is not the message's destination")
        end
        of = of .. "→ " .. (octets >= 6 and mac(octets_of(shown, 0, 6), 1) or "")
    elseif f.shown_to then
        of = of .. "→ " .. mac(octets_of(tvb, pos + f.shown_to, 6), 1)
    end
    if not ecmproto.prefs.sampled then return of end
    local starts_with, outer = formats[f.shows], scope
    local is_whole = not is_cut(starts_with, shown)
    local kept = {}
    if is_whole then
        for _, name in ipairs(RESTORED) do kept[name] = pinfo[name] end
        if wanted then
            pinfo.cols.protocol = ""
            pinfo.cols.info = ""
        end
    end
    scope = {shown = true, base = offset(shown), cut = not is_whole, wanted = wanted}
    if not is_whole or f.shows ~= "eth" then
        pcall(walk, starts_with, shown, pinfo, item, true)
    elseif as_ethernet and depth < MOST_NESTED then
        depth = depth + 1
        pcall(call, as_ethernet, shown, pinfo, item)
        depth = depth - 1
    end
    local said = scope.said
    scope = outer
    if is_whole then
        for _, name in ipairs(RESTORED) do pinfo[name] = kept[name] end
        said = wanted and tostring(pinfo.cols.protocol) .. " " .. tostring(pinfo.cols.info)
    end
    return said and of .. " " .. said:gsub(" | ", ", ") or of
end

-- Return the texts of tags, except those that a message contains.
local function joined(told)
    local said
    for n = 1, #told, 2 do
        if not (scope.unsaid and scope.unsaid[told[n]]) then said = said and said .. " | " .. told[n + 1] or told[n + 1] end
    end
    return said
end

-- Put the addresses of a packet that the capture cut off into their columns.
local function show_addresses(f, tvb, pos, pinfo)
    if f.name == "ip" then
        pinfo.src, pinfo.dst = range(tvb, pos + 12, 4):ipv4(), range(tvb, pos + 16, 4):ipv4()
    else
        pinfo.src, pinfo.dst = range(tvb, pos + 8, 16):ipv6(), range(tvb, pos + 24, 16):ipv6()
    end
end

-- Dissect octets from a format of ours on; return how many there are, or 0 of what is not ours.
function walk(f, tvb, pinfo, tree, inside)
    local captured = len(tvb)
    local reach = scope.shown and UNBOUNDED or reported_len(tvb)
    if reach > captured and depth == 1 and not scope.shown then scope.cut = is_cut(f, tvb) end
    -- of a truncated sampled frame only a text is needed; a tag's text costs less than a test whether it is needed
    local info, wanted = nil, nil
    if scope.shown and scope.cut then wanted = scope.wanted end
    local pos = 0
    local told, detail, kind, text, bad, tags_first
    while true do
        local left = captured - pos
        local s = octets_of(tvb, pos, left < f.read and left or f.read)
        if f.select then
            local group = f
            f = left < 2 and group.short or group.by[group.select(s)] or group.other
            if f and f.otherwise and cannot_be(f, s, left, reach - pos) then f = formats[f.otherwise] end
            if not f or f == group.other and (group.before or not ecmproto.prefs.unknown) then
                if group.before then
                    local rest = pos == 0 and tvb or tvb_of(range(tvb, pos, left))
                    local done, used = pcall(call, group.before, rest, pinfo, tree)
                    if pos == 0 then return done and used or captured end
                    break
                end
                if pos == 0 and not inside then return 0 end
                as_rest(tvb, pos, captured, pinfo, tree)
                break
            end
        elseif f.otherwise and cannot_be(f, s, left, reach - pos) then
            f = formats[f.otherwise]
            if not f then
                if pos == 0 and not inside then return 0 end
                as_rest(tvb, pos, captured, pinfo, tree)
                break
            end
        end
        if left < f.octets then
            if reach - pos < f.octets then
                bad = fault(f, tvb, pos, octets_text(f.octets), format("%d octets", left))
            else
                bad = short_sample(f, s, tvb, pos, left, reach - pos)
            end
            local item = add(tree, ecmproto, range(tvb, pos, left), f.title)
            flag(item, bad and malformed or cut, bad or format("%d of %d octets", left, f.octets))
            as_rest(tvb, pos, captured, pinfo, tree)
            if not detail then kind, text = scope.kind and hex(scope.kind), octets_text(left) end
            break
        end
        local stop, size = pos + f.octets, 0
        if f.variable then
            for _, each in ipairs(f.variable) do
                size = each[2](s, captured > stop and captured - stop or 0)
                stop = stop + size
            end
        end
        local whole = stop
        if stop > captured then
            size = size - (stop - captured)
            stop = captured
        end
        -- a protocol is referenced where one of its fields is, or the tree is visible
        local item = referenced(tree, f.handle) and add_layer(f, s, tvb, pos, stop, captured, tree)
        if f.zeros then
            for _, each in ipairs(f.zeros) do
                local value = each[1](s)
                if value ~= 0 then
                    item = item or add(tree, f.proto, range(tvb, pos, stop - pos))
                    flag(item, reserved, format("%s should be 0, is %d", each[2], value))
                end
            end
        end
        if f.limits then
            for _, limit in ipairs(f.limits) do
                local value = limit[1](s)
                if value < limit[2] or value > limit[3] then
                    bad = fault(f, tvb, pos + limit[5], limit[4], tostring(value))
                    break
                end
            end
        end
        bad = bad or f.min_shown_octets and short_sample(f, s, tvb, pos, left, reach - pos)
        if whole > reach and not bad then
            bad = fault(f, tvb, pos, octets_text(whole - pos), format("%d octets", stop - pos))
        end
        local ended = bad or whole > stop
        if ended then
            item = item or add(tree, f.proto, range(tvb, pos, stop - pos))
            flag(item, bad and malformed or cut, bad or format("%d of %d octets", stop - pos, whole - pos))
        end
        if f.tag then
            local said = f.info(s, tvb, pos, pinfo, scope, size)
            if told then told[#told + 1], told[#told + 2] = f.name, said else told = {f.name, said} end
        elseif f.info then
            if wanted == nil then
                info = pinfo.cols.info
                wanted = tostring(info) ~= "(info)"
            end
            if wanted then
                detail = f.info(s, tvb, pos, pinfo, scope, size)
                kind, scope.unsaid, tags_first = f.label, f.mentions, f.tags_first
            end
        end
        if mentioned[f.name] then scope[f.name] = s end
        if tapped and f.cpid and not scope.shown then
            tapped[#tapped + 1] = {
                label = f.label, cpid = cpid(s, f.cpid + 1), feedback = f.quantized and f.quantized(s),
            }
        end
        if ended and stop < captured then
            as_rest(tvb, stop, captured, pinfo, tree)
            if not detail then kind, text = scope.kind and hex(scope.kind), octets_text(captured - stop) end
            break
        elseif f.shows and size > 0 then
            add_tail(tvb, stop, captured, tree)
            local sampled = add_sampled(f, tvb, pos, stop - size, stop, pinfo, item or tree, wanted)
            if wanted and sampled then detail = detail .. " | " .. sampled end
            break
        elseif ended or not f.follows then
            if not ended then add_tail(tvb, stop, captured, tree) end
            break
        elseif f.follows == "data" then
            as_rest(tvb, stop, captured, pinfo, tree)
            break
        end
        pos = stop
        if f.follows == "protocol" then
            if not scope.shown then show_addresses(f, tvb, stop - f.octets - size, pinfo) end
            f = not (f.fragment and f.fragment(s) ~= 0) and behind_ip[f.protocol(s)]
            if not f then
                as_rest(tvb, pos, captured, pinfo, tree)
                break
            end
        else
            local value = word(s, f.next_at + 1)
            f = announced[value] or scope.cut and headers[value]
            if not f then
                kind, text = follow(value, tvb, pos, captured, reach, pinfo, tree)
                break
            end
            scope.kind = value
        end
    end
    if wanted ~= false and (told or detail or text or bad) then
        told = told and joined(told)
        if scope.shown and scope.cut then
            local said = detail or told
            if detail and told then said = tags_first and told .. " | " .. detail or detail .. " | " .. told end
            if text and text ~= "" then said = said and said .. " | " .. text or text end
            scope.said = format("%s %s", kind or "", said or "")
            return captured
        end
        info = info or pinfo.cols.info
        if detail then
            scope.message = not tags_first
            pinfo.cols.protocol = kind
            pinfo.cols.info = not told and detail or tags_first and told .. " | " .. detail or detail .. " | " .. told
        else
            if text then
                pinfo.cols.protocol = kind or "ecmproto"
                pinfo.cols.info = text
            end
            if told then
                if scope.message then append(info, " | " .. told)
                else prepend(info, text == "" and told or told .. " | ") end
            end
        end
        if bad then append(info, " [malformed: " .. bad .. "]") end
    end
    return captured
end

-- Add fields without texts or parts: to ask which of so few are referenced takes as long.
local function add_plain(f, s, tvb, tree)
    local item = add(tree, f.proto, range(tvb, 0, f.octets))
    for _, each in ipairs(f.fields) do
        local field = each[6] and word(s, each[2] + 1) <= MOST_LENGTH and each[6] or each[1]
        add(item, field, range(tvb, each[2], each[3]))
    end
end

-- Dissect a whole tag in front of what Wireshark dissects itself, as most tagged frames have it; nil for others.
local function pass(f, tvb, pinfo, tree)
    local captured = len(tvb)
    local left = captured - f.octets
    if left <= 0 or reported_len(tvb) ~= captured then return nil end
    local s = octets_of(tvb, 0, f.octets)
    local value = word(s, f.next_at + 1)
    if announced[value] or not handles[value] then return nil end
    if referenced(tree, f.handle) then
        if f.plain then add_plain(f, s, tvb, tree) else add_layer(f, s, tvb, 0, f.octets, captured, tree) end
    end
    local inner = tvb_of(range(tvb, f.octets, left))
    scope = {[f.name] = mentioned[f.name] and s}
    depth = 1
    pcall(try, ethertypes, value, inner, pinfo, tree)
    depth = 0
    local shrunk = reported_len(inner)
    if shrunk < left then add_tail(tvb, f.octets + shrunk, captured, tree) end
    if scope.unsaid and scope.unsaid[f.name] then return captured end
    local told = f.info(s, tvb, 0, pinfo, scope, 0)
    if scope.message then append(pinfo.cols.info, " | " .. told) else prepend(pinfo.cols.info, told .. " | ") end
    return captured
end

-- Dissect what Wireshark hands over.
function enter(f, tvb, pinfo, tree)
    if depth == 0 then
        if f.straight and not tapped then
            local used = pass(f, tvb, pinfo, tree)
            if used then return used end
        end
        scope = {}
        if tapped then tapped = {number = pinfo.number} end
    end
    local outer, before = scope, depth
    if before >= MOST_NESTED then
        flag(add(tree, ecmproto, range(tvb, 0)), nested)
        return call(as_data, tvb, pinfo, tree)
    end
    depth = before + 1
    local done, used = pcall(walk, f, tvb, pinfo, tree)
    scope, depth = outer, before
    if not done then error(used, 0) end
    return used
end

-- ------------------------------------------------------------------------------------------- registration

local function ethertype_of(text)
    text = tostring(text):lower():gsub("%s", "")
    if text == "" or text == "off" or text == "0" then return nil end
    local value = tonumber(text)
    if value and value >= LEAST_ETHERTYPE and value <= 65535 and value % 1 == 0 then return value end
    return nil, text
end

local function register(each)
    local wrong
    if each.preference then each.value, wrong = ethertype_of(ecmproto.prefs[each.preference]) end
    if wrong and report_failure then
        report_failure(format("ecmproto.%s: needed an EtherType from 0x0600 to 0xffff, or off, got %s", each.preference, wrong))
    end
    if not each.value then return end
    each.in_table = DissectorTable.get(each.table)
    each.format.before = each.in_table:get_dissector(each.value)
    each.in_table:add(each.value, each.proto)
    if each.table == "ethertype" then announced[each.value] = each.format end
end

local function unregister(each)
    if not each.value then return end
    each.in_table:remove(each.value, each.proto)
    if each.table == "ethertype" then announced[each.value] = nil end
    if each.format.before then each.in_table:add(each.value, each.format.before) end
    each.value = nil
end

local function chosen_by(each)
    local group = {select = each.select, by = {}, other = each.other and formats[each.other]}
    group.short = group.other or formats[each.first]
    group.read = group.short.read
    for value, name in pairs(each.by) do
        group.by[value] = formats[name]
        group.read = math.max(group.read, formats[name].read)
    end
    return group
end

for _, each in ipairs(announcements) do
    each.format = each.by and chosen_by(each) or formats[each.name]
    each.proto = each.by and protocol(each.called, each.title) or each.format.proto
    local f = each.format
    if each.by then function each.proto.dissector(tvb, pinfo, tree) return enter(f, tvb, pinfo, tree) end end
    register(each)
end

-- Let Wireshark dissect RoCE, and add what it leaves out; the base transport header is at an octet.
local function enter_roce(before, at, tvb, pinfo, tree)
    local done, used = pcall(call, before, tvb, pinfo, tree)
    if not done then return len(tvb) end  -- Wireshark has shown what is malformed
    local captured, f = len(tvb), formats.bth
    if used == 0 or not tree.text then return used end
    local left = captured - at
    if left < f.octets then return used end
    local s = octets_of(tvb, at, f.octets)
    if cannot_be(f, s, left, reported_len(tvb) - at) then return used end
    local stop = at + f.octets
    if byte(s, 1) == @CNP_OPCODE@ then
        f = formats.cnp
        stop = math.min(captured, stop + f.variable[1][2](s, captured))
    end
    add_layer(f, s, tvb, at, stop, captured, tree)
    return used
end

-- Each has a table of Wireshark, what announces RoCE in it, and the octet of the base transport header.
local roce = {@ROCE_TABLES@}

local function register_roce()
    for n, each in ipairs(roce) do
        local in_table = DissectorTable.get(each[1])
        local before = in_table:get_dissector(each[2])
        if before then
            local proto = n == 1 and formats.bth.proto or formats.cnp.proto
            local at = each[3]
            function proto.dissector(tvb, pinfo, tree) return enter_roce(before, at, tvb, pinfo, tree) end
            in_table:add(each[2], proto)
            each.proto, each.before = proto, before
        end
    end
end

local function unregister_roce()
    for _, each in ipairs(roce) do
        if each.proto then
            local in_table = DissectorTable.get(each[1])
            in_table:remove(each[2], each.proto)
            in_table:add(each[2], each.before)
            each.proto = nil
        end
    end
end

if ecmproto.prefs.roce then register_roce() end

local counting                  -- tshark's
local counters = 0              -- it, and windows
local start_counting, stop_counting

function ecmproto.prefs_changed()
    handles = {}
    local changed = {}
    for _, each in ipairs(announcements) do
        if each.preference and ethertype_of(ecmproto.prefs[each.preference]) ~= each.value then
            changed[#changed + 1] = each
        end
    end
    -- all are removed before any is added: two of them may have changed places
    for _, each in ipairs(changed) do unregister(each) end
    for _, each in ipairs(changed) do register(each) end
    if ecmproto.prefs.roce ~= (roce[1].proto ~= nil) then
        if ecmproto.prefs.roce then register_roce() else unregister_roce() end
    end
    if ecmproto.prefs.statistics and not counting then counting = start_counting(print) end
    if counting and not ecmproto.prefs.statistics then
        stop_counting(counting)
        counting = nil
    end
end

-- --------------------------------------------------------------------------------------------- statistics

-- Count messages by congestion point; tell is given the table as text whenever it is to be shown.
function start_counting(tell)
    local listener = Listener.new("frame")
    local points, order = {}, {}

    local function count(message, seconds)
        local key = message.label .. " " .. message.cpid
        local point = points[key]
        if not point then
            point = {
                label = message.label, cpid = message.cpid, count = 0, first = seconds, last = seconds,
                sum = 0, least = 64, most = 0, quantized = message.feedback,
            }
            points[key] = point
            order[#order + 1] = point
        end
        point.count, point.last = point.count + 1, seconds
        local feedback = message.feedback
        if feedback then
            point.sum = point.sum + feedback
            if feedback < point.least then point.least = feedback end
            if feedback > point.most then point.most = feedback end
        end
    end

    tapped, counters = tapped or {}, counters + 1
    function listener.packet(pinfo)
        if tapped.number == pinfo.number then
            for _, message in ipairs(tapped) do count(message, tonumber(tostring(pinfo.rel_ts))) end
        end
    end

    function listener.draw()
        local lines = {
            "Messages by congestion point",
            format("%-5s  %-23s  %8s  %10s  %s", "kind", "CPID", "messages", "per second", "Fb least, mean, most"),
        }
        table.sort(order, function(a, b) return a.count > b.count or (a.count == b.count and a.cpid < b.cpid) end)
        for _, point in ipairs(order) do
            local lasted = point.last - point.first
            local rate = lasted > 0 and (point.count - 1) / lasted
            rate = not rate and "-" or format(rate < 9999.5 and "%.4g" or "%.0f", rate)
            local feedback = point.quantized
                and format("%d, %.4g, %d", point.least, point.sum / point.count, point.most) or ""
            lines[#lines + 1] = format("%-5s  %-23s  %8d  %10s  %s", point.label, point.cpid, point.count, rate, feedback)
        end
        tell(table.concat(lines, "\n"))
    end

    function listener.reset() points, order = {}, {} end

    return listener
end

function stop_counting(listener)
    listener:remove()
    counters = counters - 1
    if counters == 0 then tapped = nil end
end

if gui_enabled() then
    register_menu("ecmproto/Messages by congestion point", function()
        local window = TextWindow.new("Messages by congestion point")
        local listener = start_counting(function(text) window:set(text) end)
        window:set_atclose(function() stop_counting(listener) end)
        retap_packets()
    end, MENU_STAT_UNSORTED)
end
