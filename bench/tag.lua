-- A dissector of CN-TAGs as one writes it by hand, to measure ours beside.
local cntag = Proto("cntag", "Congestion notification tag")
local flow_id = ProtoField.uint16("cntag.flow_id", "Flow id")
local etype = ProtoField.uint16("cntag.etype", "EtherType", base.HEX)
cntag.fields = {flow_id, etype}
local ethertypes = DissectorTable.get("ethertype")

function cntag.dissector(tvb, pinfo, tree)
    local item = tree:add(cntag, tvb(0, 4))
    item:add(flow_id, tvb(0, 2))
    item:add(etype, tvb(2, 2))
    ethertypes:try(tvb(2, 2):uint(), tvb(4):tvb(), pinfo, tree)
end

ethertypes:add(0x22e9, cntag)
