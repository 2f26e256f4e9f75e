#pragma once
// Failures with an error type of their own, such as a template's with its line: runtime::Outcome by its short
// name.
//
// Threading: as runtime::Outcome.

#include "runtime/outcome.h"

namespace reprise::protocol {

using runtime::Outcome;

}  // namespace reprise::protocol
