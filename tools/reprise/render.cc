#include "tools/reprise/render.h"

#include <chrono>
#include <cstdio>
#include <fstream>
#include <istream>
#include <iterator>
#include <ostream>

#include "base/json.h"
#include "protocol/jinja/template.h"
#include "tools/reprise/engine_flags.h"

namespace reprise::tools {
namespace {

std::chrono::system_clock::time_point parse_time(const std::string& text) {
  namespace chrono = std::chrono;
  int year = 0;
  unsigned month = 0, day = 0, hour = 0, minute = 0, second = 0;
  int taken = 0;
  const int fields = std::sscanf(text.c_str(), "%4d-%2u-%2uT%2u:%2u:%2uZ%n", &year, &month, &day, &hour,
                                 &minute, &second, &taken);
  const chrono::year_month_day date{chrono::year(year), chrono::month(month), chrono::day(day)};
  if (fields != 6 || static_cast<std::size_t>(taken) != text.size() || !date.ok() || hour > 23 ||
      minute > 59 || second > 60) {
    throw UsageError("--now takes a time like 2026-11-14T12:00:00Z, not \"" + text + "\"");
  }
  return chrono::sys_days(date) + chrono::hours(hour) + chrono::minutes(minute) + chrono::seconds(second);
}

}  // namespace

int render(const RenderOptions& options, std::istream& in, std::ostream& out, std::ostream& log) {
  protocol::jinja::RenderOptions settings;
  if (!options.now.empty()) settings.now = parse_time(options.now);
  std::ifstream file(options.template_file, std::ios::binary);
  const std::string source(std::istreambuf_iterator<char>(file), {});
  if (!file.is_open() || file.bad()) {
    log << "reprise: cannot read the template " << options.template_file.string() << std::endl;
    return 1;
  }
  const auto compiled = protocol::jinja::Template::compile(source);
  if (!compiled.ok()) {
    log << "reprise: " << options.template_file.string() << ": " << compiled.error().describe() << std::endl;
    return 1;
  }
  const std::string text(std::istreambuf_iterator<char>(in), {});
  const auto context = Json::parse(text);
  if (!context.ok()) {
    log << "reprise: standard input: " << context.error().message << std::endl;
    return 1;
  }
  const auto rendered = compiled->render(*context, settings);
  if (!rendered.ok()) {
    log << "reprise: " << options.template_file.string() << ": " << rendered.error().describe() << std::endl;
    return 1;
  }
  out << *rendered;
  out.flush();
  if (!out) log << "reprise: cannot write the rendered text" << std::endl;
  return out ? 0 : 1;
}

}  // namespace reprise::tools
