#pragma once
// The secret that snapshots are sealed with: given, read from a file, or made once and kept. What comes of it is the
// key of all keys (protocol/snapshots/seal.h).
//
// Threading: any thread; they block. Of processes that make one at once, all get the same.

#include <string>

#include "base/outcome.h"
#include "protocol/snapshots/seal.h"

namespace reprise::protocol::snapshots {

/// Where a secret is kept that nobody has named a place for, apart from what it seals: $XDG_STATE_HOME/reprise or
/// ~/.local/state/reprise. Empty: there is no such place.
std::string usual_secret_file();

/// The error says what is wrong with it.
Outcome<Key, std::string> key_of_secret(std::string_view secret);
/// Of a file that others cannot read; made, with its folder, where it is not there. The error says what to do.
Outcome<Key, std::string> key_from_file(const std::string& path);

}  // namespace reprise::protocol::snapshots
