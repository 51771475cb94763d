-- Stands in for Wireshark in an interpreter of Lua: lua stand_in.lua PLUGIN ETHERTYPE OCTETS prints the Info column
-- of what follows an EtherType.  What follows ours is nobody's, and there is no tree.

local plugin, ethertype, hex = arg[1], tonumber(arg[2]), arg[3]
local tables, info, protocol = {}, "", ""

local function anything()
    local made = setmetatable({}, {__index = function(self) return function() return self end end})
    return made
end

local Range = {}
Range.__index = Range
function Range:raw() return self.s end
function Range:ether() return self.s end
function Range:tvb() return setmetatable({s = self.s, at = self.at}, Tvb) end

Tvb = {}
Tvb.__index = Tvb
function Tvb:len() return #self.s end
function Tvb:reported_len() return #self.s end
function Tvb:offset() return self.at end
function Tvb:raw(at, length) return self.s:sub((at or 0) + 1, length and at + length or -1) end
function Tvb:range(at, length)
    length = length or #self.s - at
    assert(at >= 0 and length >= 0 and at + length <= #self.s, "out of bounds")
    return setmetatable({s = self.s:sub(at + 1, at + length), at = self.at + at}, Range)
end
Tvb.__call = Tvb.range
TvbRange = Range

local Tree = {visible = false}
Tree.__index = Tree
function Tree.add() return setmetatable({}, Tree) end
function Tree.append_text() end
function Tree.referenced() return false end
function Tree.add_proto_expert_info() end
TreeItem = Tree

Column = {}
Column.__index = Column
Column.__tostring = function() return info end
function Column.append(_, text) info = info .. text end
function Column.prepend(_, text) info = text .. info end

local columns = setmetatable({}, {
    __index = function(_, name)
        return name == "info" and setmetatable({}, Column) or setmetatable({}, {__tostring = function() return protocol end})
    end,
    __newindex = function(_, name, text) if name == "info" then info = text else protocol = text end end,
})

Proto = function(name) return {name = name, prefs = {}} end
Pref = setmetatable({}, {__index = function() return function(_, default) return default end end})
ProtoField = setmetatable({}, {__index = function() return function() return {} end end})
ProtoExpert = {new = anything}
base = setmetatable({}, {__index = function() return 0 end})
expert = {group = base, severity = base}
Dissector = {get = anything, call = function(_, tvb) return tvb:len() end}
DissectorTable = {
    get = function(name)
        tables[name] = tables[name] or {
            add = function(self, value, proto) self[value] = proto end,
            remove = function(self, value) self[value] = nil end,
            get_dissector = function() return nil end,
        }
        return tables[name]
    end,
    try = function() return 0 end,
}
Listener = {}
function gui_enabled() return false end
function report_failure(text) error(text) end

dofile(plugin)
local octets = hex:gsub("..", function(each) return string.char(tonumber(each, 16)) end)
local pinfo = {cols = columns, number = 1, dl_src = "\2\0\0\0\0\193", dl_dst = "\2\0\0\0\0\1"}
local tvb = setmetatable({s = octets, at = 14}, Tvb)
tables.ethertype[ethertype].dissector(tvb, pinfo, setmetatable({}, Tree))
print(protocol .. " " .. info)
