#include "tools/lab/bench_report.h"

#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "tools/lab/report_chart.h"
#include "tools/reprise/engine_flags.h"

namespace reprise::tools {
namespace {

constexpr const char* kHead =
    "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
    "'unsafe-inline'\">\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>Reprise, "
    "measured</title>\n"
    "<style>body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;"
    "color:#1c2430;background:#fff}figure{margin:0}figcaption{font-size:13px}"
    "svg{width:100%;height:auto;font:12px system-ui,sans-serif;fill:#1c2430}.grid{stroke:#dde3ec}"
    ".wide{overflow-x:auto}table{border-collapse:collapse;font-size:13px}"
    "td,th{padding:.2rem .6rem;text-align:right;border-bottom:1px solid #dde3ec}"
    "td:first-child{text-align:left}</style></head><body>\n";

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M UTC", &parts);
  return text;
}

}  // namespace

BenchReport::BenchReport(std::string path) : path_(std::move(path)) {
  if (path_.empty()) return;
  std::error_code ignored;
  if (std::filesystem::is_directory(path_, ignored)) throw UsageError("--report: " + path_ + " is a folder");
  if (!std::ofstream(unfinished())) throw UsageError("--report: cannot write " + path_);
}

BenchReport::~BenchReport() {
  if (!path_.empty() && !written_) std::remove(unfinished().c_str());
}

void BenchReport::add(const std::string& title, const std::string& facts, const std::string& body) {
  sections_ += "<h1>" + html_text(title) + "</h1>\n<p>" + html_text(facts) + "</p>\n" + body;
}

void BenchReport::write() {
  if (path_.empty()) return;
  std::ofstream file(unfinished(), std::ios::binary | std::ios::trunc);
  file << kHead << sections_ << "<p>Measured by reprise bench, " << today() << ".</p>\n</body></html>\n";
  file.close();
  std::error_code failed;
  if (file) std::filesystem::rename(unfinished(), path_, failed);
  if (!file || failed) throw std::runtime_error("cannot write " + path_);
  written_ = true;
}

}  // namespace reprise::tools
