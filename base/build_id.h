#pragma once
// Identifies the build: the linker's build id of the program or library that contains this code, or a digest
// of its machine code if it has none. Equal ids mean equal code.
//
// Threading: any thread; computed once.

#include <string>

namespace reprise {

const std::string& build_id();

}  // namespace reprise
