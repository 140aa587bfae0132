-- Wireshark and tshark show what LR2 gateways say to each other:
--   * control messages in RoCEv2 packets (docs/protocol.md): SYNC, STATUS, FETCH, ABSENT;
--   * the tunnel (docs/tunnel.md), over Ethernet and over UDP: shims with the frames behind them, and its messages.
-- Tags are shown, not verified: that takes the key.
--
--   tshark -X lua_script:wireshark/lr2.lua -r capture.pcapng -Y 'lr2 || lr2t'
--
-- For Wireshark, copy it into the folder of personal Lua plugins (Help, About, Folders).

local TAG_LEN = 16
local LIMITED = "Packet size limited during capture"

-- A number of `len` bytes, or nil if the capture ends before. (`tvb:len()` counts the captured bytes.)
local function number(tvb, at, len)
    if at + len <= tvb:len() then return tvb(at, len):uint() end
end

-- Runs another dissector. tvb:call raises an error where that dissector meets the end of the captured bytes, after the tree has got
-- the reason: "Packet size limited during capture", or "Malformed Packet".
local function run(dissect, ...)
    pcall(dissect, ...)
end

---------------------------------------------------------------- control messages

local lr2 = Proto("lr2", "LR2 control message")
lr2.prefs.opcode = Pref.uint("BTH opcode", 0xe1, "wire.control_opcode of the gateways")

local KINDS = { [1] = "SYNC", [2] = "STATUS", [3] = "FETCH", [4] = "ABSENT" }
local REASONS = { [1] = "open", [2] = "tail", [3] = "resent", [4] = "keepalive", [5] = "release", [6] = "lost" }

local c = {
    version = ProtoField.uint8("lr2.version", "Version"),
    kind = ProtoField.uint8("lr2.kind", "Kind", base.DEC, KINDS),
    flags = ProtoField.uint16("lr2.flags", "Flags", base.HEX),
    has_src_qpn = ProtoField.bool("lr2.flags.src_qpn", "The source's QPN is known", 16, nil, 0x0001),
    has_next_psn = ProtoField.bool("lr2.flags.next_psn", "The next PSN is claimed", 16, nil, 0x0002),
    has_ack = ProtoField.bool("lr2.flags.ack", "An ACK has been seen", 16, nil, 0x0002),
    keeps = ProtoField.bool("lr2.flags.keeps_responses", "READ responses are kept", 16, nil, 0x0004),
    passive = ProtoField.bool("lr2.flags.passive", "Passive: holds nothing", 16, nil, 0x0008),
    node = ProtoField.uint32("lr2.node", "Node", base.HEX),
    boot = ProtoField.uint64("lr2.boot", "Boot id"),
    seq = ProtoField.uint64("lr2.seq", "Sequence number"),
    seen_boot = ProtoField.uint64("lr2.seen_boot", "Newest boot id seen of the receiver"),
    dest_qpn = ProtoField.uint32("lr2.dest_qpn", "Destination QPN of the flow", base.HEX),
    epoch = ProtoField.uint32("lr2.epoch", "Epoch"),
    reason = ProtoField.uint8("lr2.reason", "Reason", base.DEC, REASONS),
    pmtu = ProtoField.uint16("lr2.pmtu", "Path MTU"),
    next_psn = ProtoField.uint32("lr2.next_psn", "Next PSN"),
    src_qpn = ProtoField.uint32("lr2.src_qpn", "QPN of the source", base.HEX),
    sent_at = ProtoField.uint64("lr2.sent_at", "Sent at (ns, sender's clock)"),
    rtt = ProtoField.uint64("lr2.rtt", "Round trip (ns)"),
    expected = ProtoField.uint32("lr2.expected", "Expected PSN"),
    from = ProtoField.uint32("lr2.from", "Gaps are complete from"),
    to = ProtoField.uint32("lr2.to", "Gaps are complete to before"),
    ack_psn = ProtoField.uint32("lr2.ack.psn", "Newest ACK: PSN"),
    ack_syndrome = ProtoField.uint8("lr2.ack.syndrome", "Newest ACK: syndrome", base.HEX),
    ack_msn = ProtoField.uint24("lr2.ack.msn", "Newest ACK: MSN"),
    echo = ProtoField.uint64("lr2.echo", "Echo (ns, receiver's clock)"),
    hold = ProtoField.uint64("lr2.hold", "Held for (ns)"),
    ranges = ProtoField.uint8("lr2.ranges", "Missing ranges"),
    start = ProtoField.uint32("lr2.range.start", "Missing from PSN"),
    count = ProtoField.uint32("lr2.range.count", "Missing PSNs"),
    tag = ProtoField.bytes("lr2.tag", "Tag"),
}
local all = {}
for _, field in pairs(c) do all[#all + 1] = field end
lr2.fields = all
local cut = ProtoExpert.new("lr2.cut", "The message ends early, or is longer than it says", expert.group.MALFORMED, expert.severity.ERROR)
local limited = ProtoExpert.new("lr2.limited", LIMITED .. ": LR2 truncated", expert.group.UNDECODED, expert.severity.NOTE)
lr2.experts = { cut, limited }

-- Adds the fields of a list of {field, bytes} as far as they were captured, and returns where they end.
local function add_all(tree, tvb, at, list)
    for _, item in ipairs(list) do
        local field, len = item[1], item[2]
        if field and at + len <= tvb:len() then tree:add(field, tvb(at, len)) end
        at = at + len
    end
    return at
end

local PREFIX = { {nil, 4}, {c.version, 1}, {c.kind, 1}, {c.flags, 2}, {c.node, 4}, {c.boot, 8}, {c.seq, 8}, {c.seen_boot, 8}, {c.dest_qpn, 4}, {c.epoch, 4} }
local BODIES = {
    [1] = { {c.reason, 1}, {nil, 1}, {c.pmtu, 2}, {c.next_psn, 4}, {c.src_qpn, 4}, {c.sent_at, 8}, {c.rtt, 8} },
    [2] = { {c.expected, 4}, {c.from, 4}, {c.to, 4}, {c.ack_psn, 4}, {c.ack_syndrome, 1}, {c.ack_msn, 3}, {c.src_qpn, 4}, {c.echo, 8}, {c.hold, 8}, {c.ranges, 1}, {nil, 3} },
    [3] = { {c.expected, 4}, {c.ranges, 1}, {nil, 3} },
}
BODIES[4] = BODIES[3]
local FLAGS = { [1] = { c.has_src_qpn, c.has_next_psn }, [2] = { c.has_src_qpn, c.has_ack, c.keeps, c.passive } }

local function length(list)
    local sum = 0
    for _, item in ipairs(list) do sum = sum + item[2] end
    return sum
end

-- The ranges that follow, up to the tag, as far as they were captured; returns how many PSNs or numbers they hold.
local function add_ranges(tree, tvb, at, stop, start, count)
    local sum = 0
    while at + 8 <= stop do
        if at + 8 > tvb:len() then return sum, stop end
        local first, n = tvb(at, 4):uint(), tvb(at + 4, 4):uint()
        local branch = tree:add(tvb(at, 8), string.format("%u, and %u from there", first, n))
        branch:add(start, tvb(at, 4))
        branch:add(count, tvb(at + 4, 4))
        sum = sum + n
        at = at + 8
    end
    return sum, at
end

-- `tvb`: what was captured of the `len` bytes between BTH and ICRC.
local function control(tvb, len, pinfo, root)
    pinfo.cols.protocol = "LR2"
    local kind = number(tvb, 5, 1)
    local tree = root:add(lr2, tvb(), "LR2 " .. (KINDS[kind] or "message of an unknown kind"))
    if not kind then
        tree:add_proto_expert_info(limited)
        pinfo.cols.info = "LR2 [" .. LIMITED .. "]"
        return
    end
    local body = BODIES[kind]
    local stop = len - TAG_LEN
    local fixed = length(PREFIX)
    if not body or stop < fixed + length(body) then
        tree:add_proto_expert_info(cut)
        pinfo.cols.info = "LR2, not understood"
        return
    end
    local is_whole = tvb:len() >= len
    add_all(tree, tvb, 0, PREFIX)
    local flags = tvb:len() >= 8 and tvb(6, 2)
    for _, flag in ipairs(flags and FLAGS[kind] or {}) do tree:add(flag, flags) end
    local at = add_all(tree, tvb, fixed, body)
    local info = KINDS[kind]
    local qpn, epoch = number(tvb, 36, 4), number(tvb, 40, 4)
    if epoch then info = info .. string.format(" of QP 0x%x, epoch %u", qpn, epoch) end
    if kind == 1 then
        local reason, next = number(tvb, fixed, 1), number(tvb, fixed + 4, 4)
        if reason then info = info .. ": " .. (REASONS[reason] or reason) end
        if next and flags:bitfield(14) == 1 then info = info .. string.format(", next PSN %u", next) end
    else
        local missing
        missing, at = add_ranges(tree, tvb, at, stop, c.start, c.count)
        if kind == 2 and flags and flags:bitfield(12) == 1 then
            info = info .. ": passive"
        elseif is_whole then
            info = info .. string.format(": expects PSN %u, %u missing", tvb(fixed, 4):uint(), missing)
        end
    end
    if is_whole then
        if at ~= stop then tree:add_proto_expert_info(cut) end
        tree:add(c.tag, tvb(stop, TAG_LEN))
    else
        tree:add_proto_expert_info(limited)
        info = info .. " [" .. LIMITED .. "]"
    end
    pinfo.cols.info = info
end

-- RoCEv2: control messages are ours, all others go to whoever had the port before.
local udp = DissectorTable.get("udp.port")
local roce = udp:get_dissector(4791)
local port = Proto("lr2_port", "LR2 in RoCEv2")

function port.dissector(tvb, pinfo, root)
    local BTH, ICRC = 12, 4
    local len = tvb:reported_len() - BTH - ICRC
    local is_ours = len >= 44 + TAG_LEN and number(tvb, 0, 1) == lr2.prefs.opcode and number(tvb, BTH, 4) == 0x4c523293
    if is_ours then
        control(tvb(BTH, math.min(len, tvb:len() - BTH)):tvb(), len, pinfo, root)
    elseif roce then
        run(roce.call, roce, tvb, pinfo, root)
    else
        return 0
    end
    return tvb:len()
end

---------------------------------------------------------------- the tunnel

local lr2t = Proto("lr2t", "LR2 tunnel")
lr2t.prefs.ethertype = Pref.uint("EtherType", 0x88b5, "wan.tunnel_ethertype of the gateways")
lr2t.prefs.port = Pref.uint("UDP port", 49791, "wan.tunnel_port of the gateways")

local TYPES = { [0] = "frame", [1] = "resent frame", [2] = "repair frame", [3] = "control message" }
local MESSAGES = { [1] = "HELLO", [2] = "REPORT", [3] = "PROBE", [4] = "SKIP", [5] = "BYE", [6] = "PATH", [7] = "PATH_ECHO" }

local t = {
    version = ProtoField.uint8("lr2t.version", "Version", base.DEC, nil, 0xf0),
    type = ProtoField.uint8("lr2t.type", "Type", base.DEC, TYPES, 0x0f),
    lane = ProtoField.uint8("lr2t.lane", "Lane"),
    before_lane = ProtoField.uint8("lr2t.predecessor.lane", "Lane of the predecessor"),
    not_kept = ProtoField.bool("lr2t.not_kept", "The sender does not keep it", 8, nil, 0x01),
    clear = ProtoField.uint8("lr2t.clear", "Clear (log2 of numbers)", base.DEC, nil, 0xf8),
    session = ProtoField.uint32("lr2t.session", "Session of the receiving end", base.HEX),
    number = ProtoField.uint32("lr2t.number", "Number"),
    before = ProtoField.uint32("lr2t.predecessor.number", "Number of the predecessor"),
    original_lane = ProtoField.uint8("lr2t.original.lane", "Lane of the first transmission"),
    original = ProtoField.uint32("lr2t.original.number", "Number of the first transmission"),
    windows = ProtoField.uint8("lr2t.repair.windows", "Windows, less 1", base.DEC, nil, 0xf0),
    streams = ProtoField.uint8("lr2t.repair.streams", "Streams (log2)", base.DEC, nil, 0x0f),
    every = ProtoField.uint8("lr2t.repair.every", "Numbers of a stream for each repair frame"),
    first = ProtoField.uint32("lr2t.repair.first", "First number"),
    summed = ProtoField.uint16("lr2t.repair.count", "Numbers (0: announcement)"),
    seed = ProtoField.uint16("lr2t.repair.seed", "Seed of the factors"),
    sum = ProtoField.bytes("lr2t.repair.sum", "Sum"),
    kind = ProtoField.uint8("lr2t.kind", "Kind", base.DEC, MESSAGES),
    reported = ProtoField.uint8("lr2t.reported.lane", "Lane"),
    has_from = ProtoField.bool("lr2t.has_from", "It has a from", 8, nil, 0x01),
    has_echo = ProtoField.bool("lr2t.has_echo", "It has the newest PROBE", 8, nil, 0x02),
    ranges = ProtoField.uint8("lr2t.ranges", "Missing ranges"),
    node = ProtoField.uint32("lr2t.node", "Node", base.HEX),
    length = ProtoField.uint16("lr2t.length", "Bytes without the tag"),
    tunnel = ProtoField.uint8("lr2t.tunnel", "Tunnel"),
    boot = ProtoField.uint64("lr2t.boot", "Boot id"),
    seq = ProtoField.uint64("lr2t.seq", "Sequence number"),
    seen_boot = ProtoField.uint64("lr2t.seen_boot", "Newest boot id known of the receiver"),
    offered = ProtoField.uint32("lr2t.offered", "Offered session", base.HEX),
    features = ProtoField.uint32("lr2t.features", "Features", base.HEX),
    frame_max = ProtoField.uint16("lr2t.frame_max", "Longest frame of the WAN port"),
    heard = ProtoField.uint16("lr2t.heard", "Longest HELLO that arrived"),
    lanes = ProtoField.uint8("lr2t.lanes", "Lanes"),
    division = ProtoField.uint8("lr2t.division", "Division", base.HEX),
    from = ProtoField.uint32("lr2t.from", "From number"),
    next = ProtoField.uint32("lr2t.next", "To before number"),
    frames = ProtoField.uint32("lr2t.frames", "Frames that arrived"),
    marked = ProtoField.uint32("lr2t.marked", "Of these, marked"),
    echo_sent = ProtoField.uint64("lr2t.echo.sent", "Newest PROBE: sent (ns)"),
    echo_arrived = ProtoField.uint64("lr2t.echo.arrived", "Newest PROBE: arrived (ns)"),
    sent = ProtoField.uint64("lr2t.sent", "Sent (ns)"),
    carried = ProtoField.uint16("lr2t.carried", "Bytes of the frame that arrived"),
    start = ProtoField.uint32("lr2t.range.start", "From number"),
    count = ProtoField.uint32("lr2t.range.count", "Numbers"),
    tag = ProtoField.bytes("lr2t.tag", "Tag"),
}
all = {}
for _, field in pairs(t) do all[#all + 1] = field end
lr2t.fields = all
local t_cut = ProtoExpert.new("lr2t.cut", "The shim or message ends early", expert.group.MALFORMED, expert.severity.ERROR)
local t_limited = ProtoExpert.new("lr2t.limited", LIMITED .. ": LR2 tunnel truncated", expert.group.UNDECODED, expert.severity.NOTE)
local t_filled = ProtoExpert.new("lr2t.filled", LIMITED .. ": the end of the frame is shown as zeros", expert.group.UNDECODED, expert.severity.NOTE)
lr2t.experts = { t_cut, t_limited, t_filled }

local T_PREFIX = { {t.lane, 1}, {t.kind, 1}, {nil, 1}, {t.session, 4}, {t.node, 4}, {t.length, 2}, {t.tunnel, 1}, {nil, 1}, {t.boot, 8}, {t.seq, 8}, {t.seen_boot, 8} }
local T_BODIES = {
    [1] = { {t.offered, 4}, {t.features, 4}, {t.frame_max, 2}, {t.heard, 2}, {t.lanes, 1}, {t.division, 1}, {nil, 2} },
    [2] = {},
    [3] = { {t.next, 4}, {t.sent, 8} },
    [4] = {},
    [5] = {},
    [6] = { {t.sent, 8} },
    [7] = { {t.sent, 8}, {t.carried, 2}, {nil, 2} },
}

local T_REPORT = { {t.reported, 1}, {t.has_from, 1}, {t.ranges, 1}, {nil, 1}, {t.from, 4}, {t.next, 4}, {t.frames, 4}, {t.marked, 4} }
local T_ECHO = { {t.echo_sent, 8}, {t.echo_arrived, 8} }

-- The REPORTs of lanes between `at` and `stop`: what they say, for the list of packets. Nil if one ends early.
local function reports(tree, tvb, at, stop)
    local said = {}
    while at < stop do
        if at + 3 > tvb:len() then break end
        local has_echo = at + length(T_REPORT) <= stop and tvb(at + 1, 1):bitfield(6, 1) == 1
        local front = length(T_REPORT) + (has_echo and length(T_ECHO) or 0)
        if at + front > stop then return nil end
        local lane, next, ranges = tvb(at, 1):uint(), number(tvb, at + 8, 4), tvb(at + 2, 1):uint()
        local behind = at + front + 8 * ranges
        if behind > stop then return nil end
        local part = tree:add(lr2t, tvb(at, math.min(behind, tvb:len()) - at), string.format("Lane %u", lane))
        part:add(t.has_echo, tvb(at + 1, 1))
        at = add_all(part, tvb, at, T_REPORT)
        if has_echo then at = add_all(part, tvb, at, T_ECHO) end
        local missing = add_ranges(part, tvb, at, behind, t.start, t.count)
        if behind <= tvb:len() then
            said[#said + 1] = string.format("of lane %u: to before %u, %u missing", lane, next, missing)
        end
        at = behind
    end
    return table.concat(said, "; ")
end

-- `len`: bytes on the wire from the message on.
local function message(tvb, len, pinfo, tree)
    local kind = number(tvb, 2, 1)
    local stop = number(tvb, 12, 2)
    local body = T_BODIES[kind or 0]
    -- The kind and the length may lie behind the captured bytes.
    if len < 40 or kind and not body or stop and (stop < 40 + length(body) or len < stop + TAG_LEN) then
        tree:add_proto_expert_info(t_cut)
        pinfo.cols.info = "LR2 tunnel, message not understood"
        return
    end
    add_all(tree, tvb, 1, T_PREFIX)
    local is_whole = stop and tvb:len() >= stop + TAG_LEN
    local info = MESSAGES[kind] or "LR2 tunnel, message"
    if stop then
        local at = add_all(tree, tvb, 40, body)
        if kind == 3 or kind == 4 or kind == 6 or kind == 7 then info = info .. string.format(" of lane %u", tvb(1, 1):uint()) end
        if kind == 2 then
            local said = reports(tree, tvb, at, stop)
            if not said then tree:add_proto_expert_info(t_cut) end
            info = info .. " " .. (said or "that ends early")
        elseif kind == 4 then
            local numbers = add_ranges(tree, tvb, at, stop, t.start, t.count)
            if is_whole then info = info .. string.format(": %u numbers", numbers) end
        elseif kind == 1 and number(tvb, 52, 1) then
            info = info .. string.format(": session 0x%x, %u lanes", tvb(40, 4):uint(), tvb(52, 1):uint())
        elseif kind == 3 and number(tvb, 40, 4) then
            info = info .. string.format(": to before %u", tvb(40, 4):uint())
        elseif kind == 6 then
            info = info .. string.format(": %u bytes of padding", stop - 48)
        elseif kind == 7 and number(tvb, 48, 2) then
            info = info .. string.format(": %u bytes arrived", tvb(48, 2):uint())
        end
    end
    if is_whole then
        tree:add(t.tag, tvb(stop, TAG_LEN))
    else
        tree:add_proto_expert_info(t_limited)
        info = info .. " [" .. LIMITED .. "]"
    end
    pinfo.cols.info = info
end

-- A repair frame, of which the shim was captured.
local function repair(tvb, pinfo, tree)
    tree:add(t.windows, tvb(2, 1))
    tree:add(t.streams, tvb(2, 1))
    tree:add(t.every, tvb(3, 1))
    tree:add(t.session, tvb(4, 4))
    tree:add(t.first, tvb(8, 4))
    tree:add(t.summed, tvb(12, 2))
    tree:add(t.seed, tvb(14, 2))
    if tvb:len() > 16 then tree:add(t.sum, tvb(16)) end
    local text = string.format("repair of lane %u from number %u, %u numbers", tvb(1, 1):uint(), tvb(8, 4):uint(), tvb(12, 2):uint())
    tree:append_text(", " .. text)
    pinfo.cols.info = text
end

-- Returns the tree of the shim, and where the frame behind the shim begins, if there is one.
local function shim(tvb, pinfo, root)
    pinfo.cols.protocol = "LR2T"
    local first = number(tvb, 0, 1)
    local version, kind = first and tvb(0, 1):bitfield(0, 4), first and tvb(0, 1):bitfield(4, 4)
    local reported = tvb:reported_len()
    local len = kind == 3 and reported or kind == 1 and 24 or 16
    local tree = root:add(lr2t, tvb(0, math.min(len, tvb:len())), "LR2 tunnel, " .. (TYPES[kind] or "unknown type"))
    if first and (version ~= 2 or not TYPES[kind]) or reported < math.max(len, 16) then
        tree:add_proto_expert_info(t_cut)
        return tree, nil
    end
    if first then
        tree:add(t.version, tvb(0, 1))
        tree:add(t.type, tvb(0, 1))
    end
    if kind == 3 then
        message(tvb, reported, pinfo, tree)
        return tree, nil
    end
    if tvb:len() < len then
        tree:add_proto_expert_info(t_limited)
        pinfo.cols.info = "LR2 tunnel [" .. LIMITED .. "]"
        return tree, nil
    end
    tree:add(t.lane, tvb(1, 1))
    if kind == 2 then
        repair(tvb, pinfo, tree)
        return tree, nil
    end
    if tvb(2, 1):uint() ~= 0xff then
        tree:add(t.before_lane, tvb(2, 1))
        tree:add(t.before, tvb(12, 4))
    end
    tree:add(t.not_kept, tvb(3, 1))
    tree:add(t.clear, tvb(3, 1))
    tree:add(t.session, tvb(4, 4))
    tree:add(t.number, tvb(8, 4))
    local text = string.format("lane %u number %u", tvb(1, 1):uint(), tvb(8, 4):uint())
    if kind == 1 then
        tree:add(t.original_lane, tvb(16, 1))
        tree:add(t.original, tvb(20, 4))
        text = text .. string.format(", resend of lane %u number %u", tvb(16, 1):uint(), tvb(20, 4):uint())
    end
    tree:append_text(", " .. text)
    return tree, len
end

-- Where the headers of a RoCEv2 or TCP packet end, whose EtherType is at `at`. Nil for others, or if the capture ends before.
local function headers_end(tvb, at)
    local ethertype = number(tvb, at, 2)
    while ethertype == 0x8100 or ethertype == 0x88a8 do
        at = at + 4
        ethertype = number(tvb, at, 2)
    end
    local ip, protocol, l4 = at + 2, nil, nil
    if ethertype == 0x0800 and number(tvb, ip + 9, 1) then
        protocol, l4 = tvb(ip + 9, 1):uint(), ip + 4 * tvb(ip, 1):bitfield(4, 4)
    elseif ethertype == 0x86dd then
        protocol, l4 = number(tvb, ip + 6, 1), ip + 40
    end
    if protocol == 6 and number(tvb, l4 + 12, 1) then return l4 + 4 * tvb(l4 + 12, 1):bitfield(0, 4) end
    if protocol ~= 17 or number(tvb, l4 + 2, 2) ~= 4791 then return nil end
    local opcode = number(tvb, l4 + 8, 1)
    -- Of reliable connections: BTH, and headers of at most 28 bytes, as those of an atomic.
    if not opcode or opcode > 0x1f then return nil end
    local SEND, ACK, ATOMIC_ACK, READ, ATOMIC = 0, 4, 12, 16, 28
    local extension = { [0x05] = 4, [0x06] = READ, [0x09] = 4, [0x0a] = READ, [0x0b] = READ + 4, [0x0c] = READ, [0x0d] = ACK, [0x0f] = ACK,
        [0x10] = ACK, [0x11] = ACK, [0x12] = ATOMIC_ACK, [0x13] = ATOMIC, [0x14] = ATOMIC, [0x03] = 4, [0x16] = 4, [0x17] = 4 }
    return l4 + 8 + 12 + (extension[opcode] or SEND)
end

-- The frame behind a shim from `at` on, whose EtherType is at `ethertype_at`, for a dissector of frames. Nil if too little was captured.
--
-- A part of a cut frame has lost its length on the wire: a dissector would call such a part malformed. So the bytes that are missing are
-- added as zeros, but only where all headers are there.
local function inside(tvb, at, ethertype_at, pinfo, tree)
    local reported = tvb:reported_len()
    if tvb:len() == reported then return tvb:len() > at and tvb(at):tvb() or nil end
    local stop = headers_end(tvb, ethertype_at)
    if not stop or stop > tvb:len() then
        tree:add_proto_expert_info(t_limited)
        pinfo.cols.info = "LR2 tunnel [" .. LIMITED .. "]"
        return nil
    end
    tree:add_proto_expert_info(t_filled)
    local bytes = tvb(at):bytes()
    bytes:set_size(reported - at)
    return bytes:tvb("Frame in the tunnel, filled with zeros")
end

-- Over Ethernet: the rest of the frame, from its own EtherType on. (The MAC addresses stand before the tunnel's.)
function lr2t.dissector(tvb, pinfo, root)
    local tree, at = shim(tvb, pinfo, root)
    local rest = at and inside(tvb, at, at, pinfo, tree)
    if rest and rest:len() >= 2 then
        local types = DissectorTable.get("ethertype")
        local ethertype = rest(0, 2):uint()
        if rest:len() > 2 then run(types.try, types, ethertype, rest(2):tvb(), pinfo, root) end
    end
    return tvb:len()
end

-- Over UDP: a whole Ethernet frame.
local over_udp = Proto("lr2t_udp", "LR2 tunnel over UDP")
function over_udp.dissector(tvb, pinfo, root)
    local tree, at = shim(tvb, pinfo, root)
    local frame = at and inside(tvb, at, at + 12, pinfo, tree)
    if frame then
        local ethernet = Dissector.get("eth_withoutfcs")
        run(ethernet.call, ethernet, frame, pinfo, root)
    end
    return tvb:len()
end

udp:add(4791, port)
local ethertype = DissectorTable.get("ethertype")
local at = { ethertype = nil, port = nil }
local function register()
    if at.ethertype == lr2t.prefs.ethertype and at.port == lr2t.prefs.port then return end
    if at.ethertype then
        ethertype:remove(at.ethertype, lr2t)
        udp:remove(at.port, over_udp)
    end
    at.ethertype, at.port = lr2t.prefs.ethertype, lr2t.prefs.port
    ethertype:add(at.ethertype, lr2t)
    udp:add(at.port, over_udp)
end
lr2t.prefs_changed = register
register()
