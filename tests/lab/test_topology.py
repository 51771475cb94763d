import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecmproto.control.engine.config import Buffer
from ecmproto.control.lab.model import Network
from ecmproto.control.lab.setup.topology import SHAPES, parse_topology
from ecmproto.errors import SpecError


def _network(line: str) -> Network:
    return parse_topology(line).network()


def _neighbours(network: Network, node: str) -> set[str]:
    return {link.b if link.a == node else link.a for link in network.links if node in (link.a, link.b)}


@pytest.mark.parametrize("shape", SHAPES)
def test_shape_is_connected_with_single_homed_hosts(shape: str) -> None:
    network = _network(shape)
    names = [host.name for host in network.hosts] + [switch.name for switch in network.switches]
    assert len(set(names)) == len(names)
    assert all(len(_neighbours(network, host.name)) == 1 for host in network.hosts)
    reached, new = set(), {names[0]}
    while new:
        reached |= new
        new = {each for node in new for each in _neighbours(network, node)} - reached
    assert reached == set(names)


def test_dumbbell_s_sources_reach_bottleneck_through_edge_switches() -> None:
    network = _network("dumbbell sources=3 destinations=2 bottleneck=1G")
    assert [host.name for host in network.hosts] == ["s1", "s2", "s3", "d1", "d2"]
    assert [_neighbours(network, f"s{n}") for n in (1, 2, 3)] == [{"e1"}, {"e2"}, {"e3"}]
    assert _neighbours(network, "left") == {"e1", "e2", "e3", "right"}
    rates = {(link.a, link.b): link.rate_bps for link in network.links}
    assert rates[("left", "right")] == 10**9
    assert rates[("e1", "left")] == rates[("s1", "e1")] == 10**10


def test_dumbbell_distributes_sources_over_edges_in_order() -> None:
    network = _network("dumbbell sources=100 edges=4")
    assert [_neighbours(network, f"s{n}") for n in (1, 25, 26, 100)] == [{"e1"}, {"e1"}, {"e2"}, {"e4"}]
    assert _neighbours(_network("dumbbell edges=0"), "s4") == {"left"}


def test_trunk_numbers_edge_hosts_before_core_hosts() -> None:
    network = _network("trunk hosts=2,3 core=2 uplink=40G")
    places = [_neighbours(network, f"h{n}") for n in range(1, 8)]
    assert places == [{"e1"}] * 2 + [{"e2"}] * 3 + [{"core"}] * 2
    assert {link.rate_bps for link in network.links if link.b == "core" and link.a[0] == "e"} == {40 * 10**9}


def test_parking_lot_numbers_long_sources_before_cross_sources() -> None:
    network = _network("parking-lot hops=2 long=4 cross=1")
    assert [host.name for host in network.hosts] == ["s1", "s2", "s3", "s4", "s5", "s6", "d0", "d1", "d2"]
    assert _neighbours(network, "sw1") == {"e1", "e2", "e3", "e4", "e5", "sw2"}
    assert _neighbours(network, "sw2") == {"sw1", "sw3", "e6", "d1"}
    assert _neighbours(network, "sw3") == {"sw2", "d0", "d2"}


def test_fat_tree_size_follows_from_k() -> None:
    network = _network("fat-tree k=4")
    assert (len(network.hosts), len(network.switches), len(network.links)) == (16, 20, 48)
    assert all(len(_neighbours(network, switch.name)) == 4 for switch in network.switches)


def test_clos_links_every_leaf_to_every_spine() -> None:
    network = _network("clos leaves=3 spines=2 hosts=4 rate=10G uplink=40G")
    assert len(network.hosts) == 12
    assert _neighbours(network, "leaf3") == {"spine1", "spine2", "h9", "h10", "h11", "h12"}


def test_common_options_are_for_every_node_and_link() -> None:
    line = "star hosts=2 rate=25G propagation=2us buffer=100frames memory=2.4MB delay=1us host_delay=3us"
    network = _network(line + " reaction_delay=4us queue=15kB")
    (switch,) = network.switches
    assert (switch.buffer.frames, switch.memory, switch.delay_ns) == (100, Buffer(2_400_000, 0), 1_000)
    assert {(host.delay_ns, host.reaction_delay_ns, host.queue_octets) for host in network.hosts} == {
        (3_000, 4_000, 15_000)
    }
    assert {(link.rate_bps, link.propagation_ns) for link in network.links} == {(25 * 10**9, 2_000)}


def test_topology_line_survives_reading_and_option_changes() -> None:
    topology = parse_topology("trunk  hosts=4,4 core=0 uplink=2.5G buffer=100frames")
    assert topology.line() == "trunk hosts=4,4 core=0 uplink=2.5Gb/s buffer=100frames"
    assert parse_topology(topology.line()) == topology
    assert topology.with_option("core", 3).line().split()[2] == "core=3"


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (
            "",
            "topology: expected a shape (star, dumbbell, trunk, parking-lot, clos, fat-tree) and its options",
        ),
        ("fattree k=4", "got 'fattree' (did you mean 'fat-tree'?)"),
        ("star host=3", "topology.host: expected an option of star, got 'host' (did you mean 'hosts'?)"),
        ("star hosts", "topology: expected name=value, such as rate=10G, got 'hosts'"),
        ("star hosts=ten", "topology.hosts: expected a whole number, got 'ten'"),
        ("star hosts=0", "topology.hosts: expected 1 to 10000, got '0'"),
        ("star hosts=2 hosts=3", "expected hosts once, got twice"),
        ("star rate=10", "topology.rate: expected a rate with its unit, such as 5G, got '10'"),
        ("trunk hosts=1,x", "topology.hosts: expected whole numbers, such as 2,3, got '1,x'"),
        ("trunk hosts=-1", "topology.hosts: expected numbers of 0 to 10000"),
    ],
)
def test_errors_say_what_is_needed(line: str, told: str) -> None:
    with pytest.raises(SpecError) as raised:
        parse_topology(line)
    assert told in str(raised.value)


@pytest.mark.parametrize("line", ["fat-tree k=3", "fat-tree k=64", "dumbbell sources=2 edges=3"])
def test_what_only_building_shows_is_an_error_too(line: str) -> None:
    with pytest.raises(SpecError, match="topology"):
        _network(line)


@given(st.text(alphabet="star dumbelkoptinc=0123456789,.GkBµs-", max_size=60))
def test_no_line_gives_anything_but_topology_or_error(line: str) -> None:
    try:
        topology = parse_topology(line)
    except SpecError:
        return
    assert parse_topology(topology.line()) == topology
