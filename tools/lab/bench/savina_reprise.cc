// The benchmarks of savina.h on the Reprise runtime.

#include <thread>

#include "tools/lab/bench/savina_reprise_few.h"
#include "tools/lab/bench/savina_reprise_many.h"

namespace reprise::bench {
namespace {

class Reprise {
 public:
  static constexpr const char* kName = "reprise";

  explicit Reprise(int threads) : system_({.workers = static_cast<unsigned>(threads)}) {}

  Result run(const PingPong& bench) { return run_main<PingActor>(bench); }
  Result run(const Counting& bench) { return run_main<ProducerActor>(bench); }
  Result run(const ThreadRing& bench) { return run_main<RingMain>(bench); }
  Result run(const Chameneos& bench) { return run_main<Mall>(bench); }
  Result run(const Big& bench) { return run_main<BigMain>(bench); }
  Result run(const ForkJoinThroughput& bench) { return run_main<ThroughputMain>(bench); }
  Result run(const ConcurrentDictionary& bench) {
    return run_main<DictionaryMain>(bench, ConcurrentDictionary::filled());
  }
  Result run(const ForkJoinCreate& bench) {
    Outcome outcome;
    Join join(bench.actors);
    outcome.start();
    for (std::uint64_t i = 0; i < bench.actors; ++i) {
      system_.spawn<OnceActor>({}, std::ref(outcome), std::ref(join)).tell(Work{theta_of(i)});
    }
    return finish(outcome);
  }
  Result run(const Ask& bench) {
    std::vector<std::uint32_t> nanoseconds;
    nanoseconds.reserve(bench.asks);
    Result result = run_main<AskMain>(bench, std::ref(nanoseconds));
    add_latencies(result, std::move(nanoseconds));
    return result;
  }
  Result run(const Idle& bench) {
    Tally started;
    Tally poked;
    std::vector<RefOf<IdleActor>> actors;
    actors.reserve(bench.actors);
    const double before = resident_bytes();
    Outcome outcome;
    outcome.start();
    for (std::uint64_t i = 1; i <= bench.actors; ++i) {
      actors.push_back(system_.spawn<IdleActor>({}, &started, &poked));
      if (i % Idle::kBatch == 0 || i == bench.actors) started.wait_for(i);
    }
    const double idle = resident_bytes();
    for (std::uint64_t i = 1; i <= bench.actors; ++i) {
      actors[i - 1].tell(Poke{1});
      if (i % Idle::kBatch == 0 || i == bench.actors) poked.wait_for(i);
    }
    const double after = resident_bytes();
    outcome.stop(poked.count());
    Result result = outcome.wait();
    const auto count = static_cast<double>(bench.actors);
    result.metrics = {{"bytes_idle", (idle - before) / count},
                      {"bytes_after_message", (after - before) / count}};
    for (const auto& actor : actors) actor.stop();
    return result;
  }

 private:
  template <class Main, class Bench, class... More>
  Result run_main(const Bench& bench, More&&... more) {
    Outcome outcome;
    system_.spawn<Main>({}, std::ref(outcome), bench, std::forward<More>(more)...);
    return finish(outcome);
  }
  Result finish(Outcome& outcome) {
    const Result result = outcome.wait();
    while (system_.actor_count() != 0) std::this_thread::yield();
    return result;
  }

  rt::System system_;
};

}  // namespace
}  // namespace reprise::bench

int main(int argc, char** argv) {
  return reprise::bench::bench_main<reprise::bench::Reprise>(argc, argv);
}
