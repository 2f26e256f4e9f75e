#pragma once
// What may be said to clients of why files cannot be used: the names of the files, without where they lie.
//
// Threading: a pure function, but for looking whether the path is a link.

#include <string>

namespace reprise::actors {

/// `text` with the folder of `path`, as it was given and as it is without links, left out wherever it stands:
/// "/srv/models/qwen/config.json: is missing" of "/srv/models/qwen" is "qwen/config.json: is missing".
std::string without_folders(std::string text, const std::string& path);

}  // namespace reprise::actors
