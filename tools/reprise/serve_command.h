#pragma once
// `reprise serve` on the command line: its flags, and where else its settings come from.
//
// Threading: the main thread.

#include <CLI/CLI.hpp>
#include <map>
#include <string>
#include <vector>

#include "tools/reprise/serve.h"

namespace reprise::tools {

class ServeCommand {
 public:
  explicit ServeCommand(CLI::App& app);
  ServeCommand(const ServeCommand&) = delete;
  ServeCommand& operator=(const ServeCommand&) = delete;

  bool parsed() const { return command_->parsed(); }
  /// Throws UsageError.
  int run(const ServiceFactory& make_service);

 private:
  /// Its flags do nothing but warn.
  void add_removed(const RemovedSetting& removed);
  void resolve();

  CLI::App* command_;
  ServeConfig config_;
  const std::vector<Setting> settings_;
  std::map<std::string, std::string> texts_;  // of the flags, by key
  std::string file_;
  std::string model_;
  std::string model_name_;
  std::string tags_;
  bool print_ = false;
};

}  // namespace reprise::tools
