#pragma once
// Work on the bytes of files, cut into parts that do not touch each other, by a few threads that live for one call.
//
// Threading: any thread.

#include <cstddef>
#include <functional>

namespace reprise::models {

/// Calls work(part) once for each part 0 ... parts - 1, on this thread and, where there are many parts, on others;
/// returns when all are done. `work` must not throw.
void in_parallel(std::size_t parts, const std::function<void(std::size_t)>& work);

}  // namespace reprise::models
