#pragma once
// The help of `reprise serve`: --help explains what most users set and names the rest, --help-all explains everything.
//
// Threading: pure functions.

#include <CLI/CLI.hpp>
#include <string>

namespace reprise::tools {

/// The group of options that --help explains.
inline constexpr const char* kCommonGroup = "Common options";

class ServeFormatter : public CLI::Formatter {
 public:
  ServeFormatter() { column_width(34); }

  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override;
  /// " PORT [8080]": what the value is, and the default.
  std::string make_option_opts(const CLI::Option* option) const override;
};

}  // namespace reprise::tools
