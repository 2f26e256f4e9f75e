#pragma once
// Parallel loop over independent parts, with threads created for the call.
//
// Bound: kMaxThreads and the machine's cores. Threading: any thread; blocks until all parts are done.

#include <cstddef>
#include <functional>

namespace reprise {

/// Calls work(part) once for each part in 0 ... parts - 1, started in that order, on this thread and, if
/// there are more than `parts_a_thread` parts, on others. `work` must not throw.
void in_parallel(std::size_t parts, const std::function<void(std::size_t)>& work,
                 std::size_t parts_a_thread = 8);

/// Returns the number of threads that in_parallel() uses.
std::size_t threads_for(std::size_t parts, std::size_t parts_a_thread);

}  // namespace reprise
