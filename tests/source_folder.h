#pragma once
// Where the sources are that the tests were built from: their data, documents that are held against the code, and
// reference files beside them (tests/oracle_folder.h).

#include <filesystem>

namespace reprise {

/// The top of the working tree.
std::filesystem::path source_folder();

}  // namespace reprise
