#pragma once
// Which build of this code is running: the linker's build id of the program or library that holds it, or, where
// there is none, a digest of its machine code. Equal ids mean the same code.
//
// Threading: any thread; found once.

#include <string>

namespace reprise {

const std::string& build_id();

}  // namespace reprise
