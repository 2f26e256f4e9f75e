#pragma once
// `reprise doctor`: what this machine has, what of it will be used, and what to do where something is missing.
//
// One line for each thing that was looked at: "ok", "note" where it works but could be better, "BAD" where it does not.
//
// Threading: the main thread.

#include <cstdint>
#include <string>

namespace reprise::tools {

struct DoctorOptions {
  std::string model{};  // empty: the built-in one
  std::string host = "127.0.0.1";
  std::uint16_t port = 8080;
};

/// Prints what it finds to stdout; returns the exit status: 1 where something is BAD.
int doctor(const DoctorOptions& options);

}  // namespace reprise::tools
