#pragma once
// `reprise snapshot`: looks after a folder of snapshots (docs/formats/snapshot.md) while no server, or any number of them,
// uses it.
//
//   ls       a line for each snapshot
//   verify   opens every record and compares it with what its manifest says; --recompute: with what a model computes
//   gc       removes what nothing refers to, and what a bound or a time to live leaves no room for
//   export   copies snapshots to another folder, sealed with another secret
//   import   copies snapshots from another folder into a namespace of this one
//
// Threading: one thread.

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "tools/reprise/engine_flags.h"

namespace reprise::tools {

struct SnapshotOptions {
  std::string folder{};
  std::string secret_file{};        // empty: the usual place
  std::string other_folder{};       // of export and import
  std::string other_secret_file{};  // what that is sealed with
  std::string tenant{};             // of import: into whose namespace; of export: whose, empty: all
  std::string cache_salt{};
  std::uint64_t disk_mb = 0;  // of gc; 0: no bound
  double ttl = 0;             // of gc, seconds; 0: for ever
  bool json = false;          // of ls
  bool recompute = false;     // of verify and import
  EngineFlags engine{};       // of --recompute
};

class SnapshotCommand {
 public:
  explicit SnapshotCommand(CLI::App& app);
  bool parsed() const { return command_->parsed(); }
  /// Exit status: 1 where something is damaged or could not be done. Throws UsageError.
  int run() const;

 private:
  void add_recompute(CLI::App& sub, const char* help);

  CLI::App* command_;
  CLI::App* list_;
  CLI::App* verify_;
  CLI::App* collect_;
  CLI::App* export_;
  CLI::App* import_;
  SnapshotOptions options_;
};

}  // namespace reprise::tools
