#pragma once
// Names of actors as strings that live for ever: a profiler knows a track by the pointer of its name.
//
// Bound: kMostNames different names; what comes after is called `fallback`, so that a program that names its
// actors after requests loses names, not memory. Equal names share one string. Threading: any thread.

#include <cstddef>
#include <string>

namespace reprise::runtime {

inline constexpr std::size_t kMostNames = 4096;

const char* intern_name(const std::string& name, const char* fallback);

}  // namespace reprise::runtime
