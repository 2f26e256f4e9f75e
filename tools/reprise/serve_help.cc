#include "tools/reprise/serve_help.h"

#include <vector>

namespace reprise::tools {
namespace {

constexpr std::size_t kColumns = 100;

/// All names of the options, in lines of at most kColumns.
std::string in_lines(const std::vector<const CLI::Option*>& options) {
  std::vector<std::string> names;
  for (const CLI::Option* option : options) {
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  std::string out;
  std::string line;
  for (const std::string& name : names) {
    if (!line.empty() && line.size() + 1 + name.size() > kColumns) {
      out += line + "\n";
      line.clear();
    }
    line += (line.empty() ? "  " : " ") + name;
  }
  return out + line + "\n";
}

}  // namespace

std::string ServeFormatter::make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const {
  if (mode != CLI::AppFormatMode::Normal) return CLI::Formatter::make_help(app, std::move(name), mode);
  const auto is_common = [](const CLI::Option* option) { return option->get_group() == kCommonGroup; };
  const auto is_further = [&](const CLI::Option* option) {
    return !is_common(option) && option->nonpositional() && !option->get_group().empty();
  };
  return make_description(app) + make_usage(app, std::move(name)) +
         make_group(kCommonGroup, false, app->get_options(is_common)) +
         "\nFurther options, explained by --help-all:\n" + in_lines(app->get_options(is_further)) + "\n" +
         make_footer(app);
}

std::string ServeFormatter::make_option_opts(const CLI::Option* option) const {
  std::string out;
  if (option->get_type_size() == 0) return out;
  if (!option->get_type_name().empty()) out += " " + option->get_type_name();
  if (!option->get_default_str().empty()) out += " [" + option->get_default_str() + "]";
  if (!option->get_envname().empty()) out += " (" + option->get_envname() + ")";
  return out;
}

}  // namespace reprise::tools
