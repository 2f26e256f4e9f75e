// The only file that includes prometheus-cpp.
#include "protocol/http/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "base/build_id.h"

namespace reprise::protocol {
namespace {

using Buckets = prometheus::Histogram::BucketBoundaries;
const Buckets kSeconds = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25,
                          0.5,   1,      2.5,   5,    10,    30,   60,  300};

const Buckets kTokenSeconds = {0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075,
                               0.1,   0.15,  0.2,   0.3,  0.5,  1,    2};
constexpr std::size_t kMaxModels = 256;

prometheus::MetricFamily family_of(const Figure& figure) {
  prometheus::MetricFamily family;
  family.name = figure.name;
  family.help = figure.help;
  family.type =
      figure.kind == Figure::Kind::kCounter ? prometheus::MetricType::Counter : prometheus::MetricType::Gauge;
  return family;
}

std::vector<prometheus::MetricFamily> families_of(const std::vector<Figure>& figures) {
  std::vector<prometheus::MetricFamily> families;
  std::map<std::string_view, std::size_t> indices;
  for (const Figure& figure : figures) {
    const auto [index, is_new] = indices.emplace(figure.name, families.size());
    if (is_new) families.push_back(family_of(figure));
    prometheus::ClientMetric metric;
    for (const auto& [name, value] : figure.labels) metric.label.push_back({name, value});
    metric.counter.value = figure.value;
    metric.gauge.value = figure.value;
    families[index->second].metric.push_back(std::move(metric));
  }
  return families;
}

// -- metrics of the process, under the names of Prometheus' client libraries

using WallClock = std::chrono::system_clock;

double seconds_of(WallClock::duration time) {
  return std::chrono::duration<double>(time).count();
}

// Approximate process start: initialized before main().
const WallClock::time_point kStarted = WallClock::now();

double resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::uint64_t size = 0;
  std::uint64_t resident = 0;
  file >> size >> resident;
  return static_cast<double>(resident) * static_cast<double>(::sysconf(_SC_PAGESIZE));
}

double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double open_files() {
  double count = 0;
  std::error_code error;
  for (std::filesystem::directory_iterator entry("/proc/self/fd", error), end; !error && entry != end;
       entry.increment(error)) {
    ++count;
  }
  return count;
}

std::vector<Figure> process_figures() {
  const auto gauge = [](const char* name, const char* help, double value) {
    return Figure{.name = name, .help = help, .value = value};
  };
  return {{.name = "reprise_build_info",
           .help = "Always 1; the label names the build; servers with equal labels run the same program",
           .labels = {{"build", build_id()}},
           .value = 1},
          gauge("reprise_uptime_seconds", "Time since the process started",
                seconds_of(WallClock::now() - kStarted)),
          gauge("process_start_time_seconds", "Start of the process, in seconds since 1970",
                seconds_of(kStarted.time_since_epoch())),
          gauge("process_resident_memory_bytes", "Memory that the process holds", resident_bytes()),
          {.kind = Figure::Kind::kCounter,
           .name = "process_cpu_seconds_total",
           .help = "CPU time that the process has used",
           .value = cpu_seconds()},
          gauge("process_open_fds", "Open file descriptors", open_files())};
}

}  // namespace

struct HttpMetrics::Families {
  prometheus::Registry registry;
  prometheus::Gauge& connections = prometheus::BuildGauge()
                                       .Name("reprise_http_connections")
                                       .Help("Open connections")
                                       .Register(registry)
                                       .Add({});
  prometheus::Gauge& generations = prometheus::BuildGauge()
                                       .Name("reprise_http_generations")
                                       .Help("Requests being answered by the engine, counting each choice")
                                       .Register(registry)
                                       .Add({});
  prometheus::Gauge& body_bytes = prometheus::BuildGauge()
                                      .Name("reprise_http_body_bytes")
                                      .Help("Bytes of request bodies received and not parsed yet")
                                      .Register(registry)
                                      .Add({});
  prometheus::Counter& gave_way = prometheus::BuildCounter()
                                      .Name("reprise_http_gave_way_total")
                                      .Help("Idle connections closed to admit new ones")
                                      .Register(registry)
                                      .Add({});
  prometheus::Counter& left = prometheus::BuildCounter()
                                  .Name("reprise_http_clients_left_total")
                                  .Help("Clients that disconnected before their answer was complete")
                                  .Register(registry)
                                  .Add({});
  prometheus::Family<prometheus::Counter>& requests = prometheus::BuildCounter()
                                                          .Name("reprise_http_requests_total")
                                                          .Help("HTTP requests answered, by path and status")
                                                          .Register(registry);
  prometheus::Family<prometheus::Histogram>& seconds =
      prometheus::BuildHistogram()
          .Name("reprise_http_request_seconds")
          .Help("Time from a request's headers to the end of its answer, by path")
          .Register(registry);
  // Caches the metric of each label set: a lookup by labels costs more than counting.
  std::map<std::pair<std::string_view, int>, prometheus::Counter*> counts;  // by path and status
  std::map<std::string_view, prometheus::Histogram*> times;
  prometheus::Family<prometheus::Histogram>& first_token =
      prometheus::BuildHistogram()
          .Name("reprise_first_token_seconds")
          .Help("Time from a request's arrival to its first token, by model")
          .Register(registry);
  prometheus::Family<prometheus::Histogram>& inter_token =
      prometheus::BuildHistogram()
          .Name("reprise_inter_token_seconds")
          .Help("Mean time between two tokens of a reply, observed once per reply, by model")
          .Register(registry);
  prometheus::Family<prometheus::Histogram>& queued =
      prometheus::BuildHistogram()
          .Name("reprise_queued_seconds")
          .Help("Time from a request's arrival to its admission, by model")
          .Register(registry);
  struct OfModel {
    prometheus::Histogram& first_token;
    prometheus::Histogram& inter_token;
    prometheus::Histogram& queued;
  };
  std::map<std::string, OfModel> models;

  OfModel& of_model(const std::string& name) {
    const std::string label = models.contains(name) || models.size() < kMaxModels ? name : "other";
    const auto found = models.find(label);
    if (found != models.end()) return found->second;
    const prometheus::Labels labels{{"model", label}};
    return models
        .emplace(label, OfModel{first_token.Add(labels, kSeconds), inter_token.Add(labels, kTokenSeconds),
                                queued.Add(labels, kSeconds)})
        .first->second;
  }
};

HttpMetrics::HttpMetrics() : families_(std::make_unique<Families>()) {}
HttpMetrics::~HttpMetrics() = default;

void HttpMetrics::connections_changed(int by) {
  families_->connections.Increment(by);
}
void HttpMetrics::generations_changed(int by) {
  families_->generations.Increment(by);
}
void HttpMetrics::gave_way() {
  families_->gave_way.Increment();
}
void HttpMetrics::set_body_bytes(std::size_t bytes) {
  families_->body_bytes.Set(static_cast<double>(bytes));
}
void HttpMetrics::client_left() {
  families_->left.Increment();
}

void HttpMetrics::request_done(std::string_view path, int status, double seconds) {
  prometheus::Counter*& count = families_->counts[{path, status}];
  prometheus::Histogram*& times = families_->times[path];
  if (count == nullptr) {
    count = &families_->requests.Add({{"path", std::string(path)}, {"status", std::to_string(status)}});
  }
  if (times == nullptr) times = &families_->seconds.Add({{"path", std::string(path)}}, kSeconds);
  count->Increment();
  times->Observe(seconds);
}

void HttpMetrics::reply_done(const std::string& model, std::uint32_t choices, const Usage& usage) {
  Families::OfModel& of = families_->of_model(model);
  of.first_token.Observe(usage.timing.first_token_ms / 1000);
  of.queued.Observe(usage.timing.queued_ms / 1000);
  // The choices of a request are decoded in parallel.
  const std::uint32_t tokens = usage.completion_tokens / std::max(choices, 1U);
  if (tokens > 1) of.inter_token.Observe(usage.timing.decode_ms / 1000 / (tokens - 1));
}

std::string HttpMetrics::text(const std::vector<Figure>& engine) const {
  std::vector<prometheus::MetricFamily> all = families_of(engine);
  for (prometheus::MetricFamily& family : families_of(process_figures())) all.push_back(std::move(family));
  for (prometheus::MetricFamily& family : families_->registry.Collect()) all.push_back(std::move(family));
  std::ostringstream out;
  prometheus::TextSerializer().Serialize(out, all);
  return out.str();
}

}  // namespace reprise::protocol
