#pragma once
// The APIs that are served: the one place that knows them all.
//
// Threading: a pure function.

#include "protocol/api/endpoint.h"

namespace reprise::protocol {

ApiTable all_apis();

}  // namespace reprise::protocol
