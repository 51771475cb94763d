// Flows on fixed paths in htsim, as constant bit rates over queues and pipes. bench/lab.py describes the input.

#include <iostream>
#include <iterator>
#include <map>
#include <sstream>
#include <vector>

#include "cbr.h"
#include "config.h"
#include "eventlist.h"
#include "pipe.h"
#include "queue.h"
#include "route.h"

int main()
{
    const double frameBits = 1500 * 8;
    const mem_b queueOctets = 500000;
    unsigned long nodeCount, rateBps, delayNs, intervalNs, untilNs;
    std::cin >> nodeCount >> rateBps >> delayNs >> intervalNs >> untilNs >> std::ws;
    EventList& events = EventList::getTheEventList();
    events.setEndtime(timeFromNs(untilNs));
    std::map<std::pair<int, int>, std::pair<Queue*, Pipe*>> lines;
    std::vector<CbrSink*> sinks;
    for (std::string line; std::getline(std::cin, line);) {
        std::istringstream words(line);
        std::vector<int> path{std::istream_iterator<int>(words), {}};
        Route* route = new Route();
        for (size_t hop = 0; hop + 1 < path.size(); hop++) {
            auto& ends = lines[{path[hop], path[hop + 1]}];
            if (!ends.first)
                ends = {new Queue(rateBps, queueOctets, events, nullptr), new Pipe(timeFromNs(delayNs), events)};
            route->push_back(ends.first);
            route->push_back(ends.second);
        }
        sinks.push_back(new CbrSink());
        route->push_back(sinks.back());
        CbrSrc* source = new CbrSrc(events, linkspeed_bps(frameBits * 1e9 / intervalNs));
        source->connect(*route, *sinks.back(), 0);
    }
    while (events.doNextEvent()) {
    }
    unsigned long received = 0;
    for (CbrSink* sink : sinks)
        received += sink->_received;
    std::cout << received << "\n";
}
