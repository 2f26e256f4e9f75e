#pragma once
// Metrics of the process itself (memory, CPU time, files, uptime), under the names that Prometheus' client libraries use.
//
// Threading: any thread.

#include <vector>

#include "protocol/service.h"

namespace reprise::protocol {

/// Build, resident memory, CPU time, open files, start and age.
std::vector<Figure> process_figures();

}  // namespace reprise::protocol
