#include "traces/recorder.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <memory>
#include <mutex>
#include <utility>

#include "traces/track.h"

namespace reprise::traces {
namespace {

struct ThreadLog {
  std::mutex mutex;
  std::uint32_t thread = 0;
  std::string name;
  std::vector<Event> events;
};

/// Never destroyed: threads may end after main().
struct Logs {
  std::mutex mutex;
  std::vector<std::shared_ptr<ThreadLog>> all;
  std::uint32_t threads = 0;
  // Events kept and not taken. Relaxed: a count that orders nothing.
  std::atomic<std::size_t> held{0};
  std::atomic<std::size_t> most{Recorder::kMaxEvents};
  std::atomic<std::uint64_t> dropped{0};

  static Logs& instance() {
    static auto* logs = new Logs;
    return *logs;
  }
};

ThreadLog& log_of_this_thread() {
  thread_local const std::shared_ptr<ThreadLog> log = [] {
    Logs& logs = Logs::instance();
    auto made = std::make_shared<ThreadLog>();
    const std::lock_guard lock(logs.mutex);
    made->thread = ++logs.threads;
    made->name = "thread " + std::to_string(made->thread);
    logs.all.push_back(made);
    return made;
  }();
  return *log;
}

}  // namespace

std::int64_t now_ns() {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

bool Recorder::start(std::size_t max_events) {
#if defined(REPRISE_TRACE_OFF)
  static_cast<void>(max_events);
  return false;
#else
  bool runs = false;
  if (!recorder_runs.compare_exchange_strong(runs, true, std::memory_order_relaxed)) return false;
  Logs& logs = Logs::instance();
  take();
  logs.most.store(max_events, std::memory_order_relaxed);
  logs.dropped.store(0, std::memory_order_relaxed);
  return true;
#endif
}

void Recorder::stop() {
  recorder_runs.store(false, std::memory_order_relaxed);
}

std::vector<Event> Recorder::take() {
  Logs& logs = Logs::instance();
  std::vector<Event> out;
  const std::lock_guard lock(logs.mutex);
  for (const auto& log : logs.all) {
    std::vector<Event> events;
    {
      const std::lock_guard own(log->mutex);
      events.swap(log->events);
    }
    std::move(events.begin(), events.end(), std::back_inserter(out));
  }
  std::erase_if(logs.all, [](const auto& log) { return log.use_count() == 1; });
  logs.held.fetch_sub(out.size(), std::memory_order_relaxed);
  return out;
}

std::uint64_t Recorder::dropped() {
  return Logs::instance().dropped.load(std::memory_order_relaxed);
}

void Recorder::add(Event event) {
  Logs& logs = Logs::instance();
  if (logs.held.fetch_add(1, std::memory_order_relaxed) >= logs.most.load(std::memory_order_relaxed)) {
    logs.held.fetch_sub(1, std::memory_order_relaxed);
    logs.dropped.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  ThreadLog& log = log_of_this_thread();
  event.thread = log.thread;
  if (const Track* track = Track::current(); track != nullptr && event.track == nullptr) {
    event.track = track->name();
  }
  const std::lock_guard lock(log.mutex);
  log.events.push_back(std::move(event));
}

std::vector<std::pair<std::uint32_t, std::string>> Recorder::thread_names() {
  Logs& logs = Logs::instance();
  std::vector<std::pair<std::uint32_t, std::string>> out;
  const std::lock_guard lock(logs.mutex);
  for (const auto& log : logs.all) {
    const std::lock_guard own(log->mutex);
    out.emplace_back(log->thread, log->name);
  }
  return out;
}

void Recorder::name_thread(std::string name) {
  ThreadLog& log = log_of_this_thread();
  const std::lock_guard lock(log.mutex);
  log.name = std::move(name);
}

}  // namespace reprise::traces
