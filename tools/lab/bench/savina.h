// Definitions of the actor micro-benchmarks, and the command line and output shared by all programs that run
// them. They follow the Savina suite; comments state the differences.
//
// A program defines a class `Runtime` and passes it to bench_main():
//
//   class Runtime {
//    public:
//     static constexpr const char* kName = "...";      // "runtime" in the output
//     explicit Runtime(int threads);                   // starts the pool; not timed
//     Result run(const PingPong&);                     // one overload for each benchmark below
//     ...
//   };
//
// Rules for run():
//  - All actors run on the runtime's pool of `threads` threads. The calling thread only starts the first
//    actor ("main" below), then sleeps in Outcome::wait(). It drives `fjcreate` and `idle` itself.
//  - `main` calls Outcome::start() in its first turn, before it creates other actors. The actor that
//    detects the end calls Outcome::stop() with the check value. Only the time between counts: not the
//    start of the pool, its wake-up, or the teardown of actors (except in `fjcreate`).
//  - A message is one transfer through a mailbox. Messages without fields may carry a tag if the runtime
//    has no empty messages. Actor references may travel as the runtime's implicit sender.
//  - Senders do not wait for mailbox capacity, unless the runtime has only such mailboxes.
//  - run() returns after the actors of this repetition have ended.
//
// Differences between the runtimes:
//  - Placement is up to the runtime: threads, stealing, pinning, length of a turn.
//  - CAF is the distribution's shared library; only its templates are compiled here, with this project's
//    flags, as C++17.
//  - Both use the process's malloc, unless a runtime has its own pools.
//  - CAF handles count references atomically; copying them is part of its cost.
//
// Must compile as C++17 and C++20.
#pragma once

#include <malloc.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace reprise::bench {

// ---- Shared work ----

/// Deterministic random numbers; one generator per actor.
class XorShift {
 public:
  explicit XorShift(std::uint64_t index) : state_((index + 1) * 0x9E3779B97F4A7C15u) {}

  std::uint64_t next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return state_;
  }

 private:
  std::uint64_t state_;
};

/// Returns the angle in the n-th message of the fork-join benchmarks.
inline double theta_of(std::uint64_t n) {
  return 37.2 + static_cast<double>(n & 1023u);
}

/// The work of the fork-join benchmarks: a sine, rounded to 0 ... 2000 so that sums are exact.
inline std::uint64_t tiny_work(double theta) {
  return static_cast<std::uint64_t>(1000.0 + 1000.0 * std::sin(theta));
}

inline std::uint64_t scaled(double count, double scale) {
  return static_cast<std::uint64_t>(std::max(1.0, std::round(count * scale)));
}

// ---- The benchmarks ----
//
// Each has a name, parameters at a given scale (which multiplies message counts, in `fjcreate` and `idle`
// actor counts), its number of messages, and the expected check value.

/// Two actors. `main` (ping) creates pong and sends it Ping{1}. Pong answers Ping{n} with Pong{n}. Ping adds
/// n to a sum and sends Ping{n+1}, until n = round_trips. Check: the sum. Difference: Savina's ping also
/// sends itself a message per round trip.
struct PingPong {
  static constexpr const char* kName = "pingpong";
  std::uint64_t round_trips;

  explicit PingPong(double scale) : round_trips(scaled(1'000'000, scale)) {}
  std::uint64_t messages() const { return 2 * round_trips; }
  std::uint64_t expected_check() const { return round_trips * (round_trips + 1) / 2; }
};

/// Two actors. `main` (producer) creates the counter and sends it `increments` Increment{} in one turn, then
/// Retrieve{}. The counter answers with Total{n}. Check: n.
struct Counting {
  static constexpr const char* kName = "counting";
  std::uint64_t increments;

  explicit Counting(double scale) : increments(scaled(5'000'000, scale)) {}
  std::uint64_t messages() const { return increments + 2; }
  std::uint64_t expected_check() const { return increments; }
};

/// A ring of actors 0 ... kActors-1, created by `main`, which sends Token{hops} to actor 0. An actor that
/// gets Token{n}, n > 0, sends Token{n-1} to its successor; Token{0} ends the run. Check: hops * 1000 + index
/// of the last actor. (The exit message around the ring is not timed.)
struct ThreadRing {
  static constexpr const char* kName = "threadring";
  static constexpr std::uint32_t kActors = 100;
  std::uint64_t hops;

  explicit ThreadRing(double scale) : hops(scaled(2'000'000, scale)) {}
  std::uint64_t messages() const { return hops + 1; }
  std::uint64_t expected_check() const { return hops * 1000 + hops % kActors; }
};

enum class Color : std::uint32_t { kBlue, kRed, kYellow };

/// Returns the color of a creature of color `own` after it meets one of color `other`.
inline Color complement(Color own, Color other) {
  if (own == other) return own;
  return static_cast<Color>(3 - static_cast<std::uint32_t>(own) - static_cast<std::uint32_t>(other));
}

/// `main` is the mall and creates kCreatures chameneos, the i-th with color i % 3; each sends Meet{color,
/// self} to the mall. The mall keeps the first of two; it forwards the second Meet to the first and counts a
/// meeting. The first takes the complement of the two colors, counts, sends Change{new color} to the second
/// and Meet to the mall. The second takes the color from Change, counts, and sends Meet to the mall. After
/// `meetings` the mall answers each Meet with Fade{}; the creature replies Met{its count} and ends. Check:
/// the sum of the counts.
struct Chameneos {
  static constexpr const char* kName = "chameneos";
  static constexpr std::uint32_t kCreatures = 100;
  std::uint64_t meetings;

  explicit Chameneos(double scale) : meetings(scaled(500'000, scale)) {}
  std::uint64_t messages() const { return 4 * meetings + 3 * kCreatures; }
  std::uint64_t expected_check() const { return 2 * meetings; }
};

/// kActors actors, and `main` as the sink, which creates them and sends each Peers{list of all}, then
/// Start{}. A started actor sends Ping{own index} to a random other actor (see target()) and waits for
/// Pong{index of the answerer}; after `pings` pongs it sends Done{sum of (index + 1) over its pongs} to the
/// sink. It answers pings at any time. Check: the sum of all Done. (Savina lets an actor ping itself.)
struct Big {
  static constexpr const char* kName = "big";
  static constexpr std::uint32_t kActors = 120;
  std::uint64_t pings;  // per actor

  explicit Big(double scale) : pings(scaled(10'000, scale)) {}
  std::uint64_t messages() const { return kActors * (2 * pings + 3); }

  /// Returns the actor that `self` pings next; `random` is XorShift(self).
  static std::uint32_t target(XorShift& random, std::uint32_t self) {
    auto other = static_cast<std::uint32_t>(random.next() % (kActors - 1));
    return other < self ? other : other + 1;
  }

  std::uint64_t expected_check() const {
    std::uint64_t sum = 0;
    for (std::uint32_t self = 0; self < kActors; ++self) {
      XorShift random(self);
      for (std::uint64_t i = 0; i < pings; ++i) sum += target(random, self) + 1;
    }
    return sum;
  }
};

/// `main` creates kWorkers workers and, in one turn, sends Work{theta_of(m)} to each worker for m = 0 ...
/// per_worker-1, looping over workers within m. A worker adds tiny_work(theta) to its sum and sends Done{sum}
/// after per_worker messages. Check: the sum of all Done.
struct ForkJoinThroughput {
  static constexpr const char* kName = "fjthroughput";
  static constexpr std::uint32_t kWorkers = 60;
  std::uint64_t per_worker;

  explicit ForkJoinThroughput(double scale) : per_worker(scaled(20'000, scale)) {}
  std::uint64_t messages() const { return kWorkers * (per_worker + 1); }
  std::uint64_t expected_check() const {
    std::uint64_t sum = 0;
    for (std::uint64_t m = 0; m < per_worker; ++m) sum += tiny_work(theta_of(m));
    return sum * kWorkers;
  }
};

/// The calling thread, outside the pool, creates `actors` actors one by one and sends the i-th
/// Work{theta_of(i)} right after creating it; there is no `main`, and it calls Outcome::start() itself. An
/// actor computes tiny_work(theta) and ends. Its destructor passes the result to Join::leave(); the last one
/// ends the run. Check: the sum of the results. (In CAF 0.17 a stealing thread walks the victim's whole
/// queue: if a pool actor created them, they would wait in one queue and a run would take about 20 times as
/// long. Created from outside, they are spread over all threads.)
struct ForkJoinCreate {
  static constexpr const char* kName = "fjcreate";
  std::uint64_t actors;

  explicit ForkJoinCreate(double scale) : actors(scaled(400'000, scale)) {}
  std::uint64_t messages() const { return actors; }
  std::uint64_t expected_check() const {
    std::uint64_t sum = 0;
    for (std::uint64_t i = 0; i < actors; ++i) sum += tiny_work(theta_of(i));
    return sum;
  }
};

/// `main` creates the dictionary actor, which holds a std::unordered_map with key -> value_of(key) for kKeys
/// keys (made by filled() before the run), and kWorkers workers. A worker sends Write{key, value_of(key)} or
/// Read{key}, and the next request after the answer Value{value}; the dictionary stores or looks up the value
/// and answers with it. After `requests` answers a worker sends Done{sum of the answers} to `main`. Check:
/// the sum of all Done. Differences from Savina: the size (there 524,287 keys, which measures cache misses),
/// the share of writes (there 10 %), and that a key's value never changes, so answers do not depend on the
/// order.
struct ConcurrentDictionary {
  static constexpr const char* kName = "concdict";
  static constexpr std::uint32_t kWorkers = 20;
  static constexpr std::uint64_t kKeys = 65'536;
  static constexpr std::uint64_t kWritePercent = 20;
  std::uint64_t requests;  // per worker

  using Map = std::unordered_map<std::uint64_t, std::uint64_t>;

  struct Request {
    bool write;
    std::uint64_t key;
  };

  explicit ConcurrentDictionary(double scale) : requests(scaled(50'000, scale)) {}
  std::uint64_t messages() const { return kWorkers * (2 * requests + 1); }
  static std::uint64_t value_of(std::uint64_t key) { return 3 * key + 1; }

  static Map filled() {
    Map map;
    map.reserve(kKeys);
    for (std::uint64_t key = 0; key < kKeys; ++key) map.emplace(key, value_of(key));
    return map;
  }

  /// Returns the next request of worker i; `random` is XorShift(i).
  static Request next(XorShift& random) {
    std::uint64_t r = random.next();
    return {(r >> 32) % 100 < kWritePercent, r % kKeys};
  }

  std::uint64_t expected_check() const {
    std::uint64_t sum = 0;
    for (std::uint32_t worker = 0; worker < kWorkers; ++worker) {
      XorShift random(worker);
      for (std::uint64_t i = 0; i < requests; ++i) sum += value_of(next(random).key);
    }
    return sum;
  }
};

/// Two actors. `main` asks Question{n}, n = 1 ... asks, and awaits the answer n + 1 by the runtime's
/// request/response facility (no deadline) before the next. Each ask is timed in `main`, from before sending
/// to receiving the answer. Check: the sum of the answers. Metrics: p50_ns, p99_ns.
struct Ask {
  static constexpr const char* kName = "ask";
  std::uint64_t asks;

  explicit Ask(double scale) : asks(scaled(200'000, scale)) {}
  std::uint64_t messages() const { return 2 * asks; }
  std::uint64_t expected_check() const { return asks * (asks + 1) / 2 + asks; }
};

/// Memory of idle actors. The calling thread allocates space for the handles, reads resident_bytes(), creates
/// `actors` actors in batches of kBatch, waiting for the first turn of each batch; reads resident_bytes();
/// sends Poke{1} to each, in batches, waiting for each to be handled; reads resident_bytes(). An actor's
/// state is one std::uint64_t, to which it adds the number in Poke. Check: the number of pokes handled.
/// Metrics: bytes_idle and bytes_after_message, the increase over the first reading per actor. Actors must be
/// able to receive at the last reading. Each repetition runs in a fresh process, without warm-up.
struct Idle {
  static constexpr const char* kName = "idle";
  static constexpr std::uint64_t kBatch = 1000;
  std::uint64_t actors;

  explicit Idle(double scale) : actors(scaled(1'000'000, scale)) {}
  std::uint64_t messages() const { return actors; }
  std::uint64_t expected_check() const { return actors; }
};

// -- results

struct Result {
  double seconds = 0;
  std::uint64_t check = 0;
  std::vector<std::pair<const char*, double>> metrics = {};
};

/// Times one run, and lets the calling thread wait for its end.
class Outcome {
 public:
  void start() { start_ = std::chrono::steady_clock::now(); }

  void stop(std::uint64_t check) {
    auto now = std::chrono::steady_clock::now();
    std::lock_guard<std::mutex> lock(mutex_);
    result_.seconds = std::chrono::duration<double>(now - start_).count();
    result_.check = check;
    stopped_ = true;
    changed_.notify_all();
  }

  Result wait() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return stopped_; });
    return result_;
  }

 private:
  std::chrono::steady_clock::time_point start_ = {};
  std::mutex mutex_;
  std::condition_variable changed_;
  Result result_;
  bool stopped_ = false;
};

/// Counts actors that end and sums their results, in one atomic word.
class Join {
 public:
  explicit Join(std::uint64_t actors) : actors_(actors) {}

  /// Returns true for the last actor; sum() is then complete.
  bool leave(std::uint64_t result) {
    std::uint64_t before = state_.fetch_add(kOne + result, std::memory_order_acq_rel);
    return before / kOne + 1 == actors_;
  }

  std::uint64_t sum() const { return state_.load(std::memory_order_acquire) % kOne; }

 private:
  static constexpr std::uint64_t kOne = std::uint64_t{1} << 36;  // 2^28 actors, sum of results < 2^36
  std::uint64_t actors_;
  std::atomic<std::uint64_t> state_{0};
};

/// Lets the calling thread of `idle` wait until `n` events have happened.
class Tally {
 public:
  void add() { count_.fetch_add(1, std::memory_order_release); }
  void wait_for(std::uint64_t n) const {
    while (count_.load(std::memory_order_acquire) < n) usleep(20);
  }
  std::uint64_t count() const { return count_.load(std::memory_order_acquire); }

 private:
  std::atomic<std::uint64_t> count_{0};
};

/// Returns the resident memory of the process after malloc_trim().
inline double resident_bytes() {
  malloc_trim(0);
  long size = 0, resident = 0;
  std::FILE* file = std::fopen("/proc/self/statm", "r");
  if (file == nullptr || std::fscanf(file, "%ld %ld", &size, &resident) != 2) std::abort();
  std::fclose(file);
  return static_cast<double>(resident) * static_cast<double>(sysconf(_SC_PAGESIZE));
}

inline double quantile(const std::vector<std::uint32_t>& sorted, double share) {
  if (sorted.empty()) return 0;
  auto index = static_cast<std::size_t>(share * static_cast<double>(sorted.size()));
  return sorted[std::min(index, sorted.size() - 1)];
}

/// Adds the metrics of `ask` from the nanoseconds of each ask.
inline void add_latencies(Result& result, std::vector<std::uint32_t> nanoseconds) {
  std::sort(nanoseconds.begin(), nanoseconds.end());
  result.metrics.emplace_back("p50_ns", quantile(nanoseconds, 0.50));
  result.metrics.emplace_back("p99_ns", quantile(nanoseconds, 0.99));
}

// ---- Command line and output ----

struct Options {
  std::string bench;
  int threads = 2;
  double scale = 1;
  int reps = 1;
};

inline Options parse_options(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    std::string name = argv[i];
    if (name == "--bench")
      options.bench = argv[i + 1];
    else if (name == "--threads")
      options.threads = std::atoi(argv[i + 1]);
    else if (name == "--scale")
      options.scale = std::atof(argv[i + 1]);
    else if (name == "--reps")
      options.reps = std::atoi(argv[i + 1]);
    else
      options.reps = 0;
  }
  if (argc % 2 == 0 || options.bench.empty() || options.threads < 1 || options.reps < 1 ||
      !(options.scale > 0)) {
    std::fprintf(stderr, "usage: %s --bench NAME [--threads N] [--scale X] [--reps R]\n", argv[0]);
    std::exit(2);
  }
  return options;
}

/// Prints one repetition as a line of JSON. Returns false if the check failed.
template <class Bench>
bool report(const char* runtime, const Options& options, const Bench& bench, const Result& result) {
  std::printf(
      "{\"runtime\":\"%s\",\"bench\":\"%s\",\"threads\":%d,\"scale\":%g,\"seconds\":%.9f,\"messages\":%llu,"
      "\"check\":%llu",
      runtime, Bench::kName, options.threads, options.scale, result.seconds,
      static_cast<unsigned long long>(bench.messages()), static_cast<unsigned long long>(result.check));
  for (const auto& metric : result.metrics) std::printf(",\"%s\":%.1f", metric.first, metric.second);
  std::printf("}\n");
  std::fflush(stdout);
  if (result.check == bench.expected_check()) return true;
  std::fprintf(stderr, "%s %s: check is %llu, should be %llu\n", runtime, Bench::kName,
               static_cast<unsigned long long>(result.check),
               static_cast<unsigned long long>(bench.expected_check()));
  return false;
}

/// Runs all repetitions of a timed benchmark on one pool; the first is a warm-up and not printed.
template <class Runtime, class Bench>
bool run_timed(const Options& options, const Bench& bench) {
  Runtime runtime(options.threads);
  runtime.run(bench);
  bool right = true;
  for (int rep = 0; rep < options.reps; ++rep) {
    right &= report(Runtime::kName, options, bench, runtime.run(bench));
  }
  return right;
}

/// Runs all repetitions of `idle`, each in its own process.
template <class Runtime>
bool run_idle(const Options& options, const Idle& bench) {
  bool right = true;
  for (int rep = 0; rep < options.reps; ++rep) {
    pid_t child = fork();
    if (child == 0) {
      bool ok = false;
      {
        Runtime runtime(options.threads);
        ok = report(Runtime::kName, options, bench, runtime.run(bench));
      }
      std::_Exit(ok ? 0 : 1);
    }
    int status = 1;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) right = false;
  }
  return right;
}

/// Runs `bench` if it was requested. Returns 0: check passed, 1: check failed, -1: not requested.
template <class Runtime, class Bench>
int run_if_named(const Options& options) {
  if (options.bench != Bench::kName) return -1;
  return run_timed<Runtime>(options, Bench(options.scale)) ? 0 : 1;
}

template <class Runtime>
int bench_main(int argc, char** argv) {
  Options options = parse_options(argc, argv);
  if (options.bench == Idle::kName) return run_idle<Runtime>(options, Idle(options.scale)) ? 0 : 1;
  int status = -1;
  for (auto run :
       {run_if_named<Runtime, PingPong>, run_if_named<Runtime, Counting>, run_if_named<Runtime, ThreadRing>,
        run_if_named<Runtime, Chameneos>, run_if_named<Runtime, Big>,
        run_if_named<Runtime, ForkJoinThroughput>, run_if_named<Runtime, ForkJoinCreate>,
        run_if_named<Runtime, ConcurrentDictionary>, run_if_named<Runtime, Ask>}) {
    if (status < 0) status = run(options);
  }
  if (status < 0) std::fprintf(stderr, "%s: no benchmark '%s'\n", argv[0], options.bench.c_str());
  return status < 0 ? 2 : status;
}

}  // namespace reprise::bench
