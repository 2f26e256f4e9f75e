#pragma once
// What /metrics says of the process itself, under the names that Prometheus' own libraries use where there are such.
//
// Threading: any thread.

#include <vector>

#include "protocol/service.h"

namespace reprise::protocol {

/// Build, resident memory, CPU time, open files, start and age.
std::vector<Figure> process_figures();

}  // namespace reprise::protocol
