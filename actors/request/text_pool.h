#pragma once
// TextPool: the text actors of an engine, side by side behind one queue (text_queue.h), so that one long text holds up
// nobody but those behind it, and one tenant's texts nobody else's.
//
// Failure: its actors'. One that fails without end stops for good and gets no more jobs.
//
// Threading: ask() within an actor's turn, as all asks; the rest from any thread.

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/request/text_actor.h"
#include "actors/request/text_queue.h"
#include "runtime/system.h"

namespace reprise::actors {

class TextPool {
 public:
  TextPool(runtime::System& system, std::uint32_t actors, const TextQueue::Limits& limits,
           const std::shared_ptr<ModelDirectory>& directory, const std::shared_ptr<Restarts>& restarts) {
    using namespace std::chrono_literals;
    for (std::uint32_t i = 0; i < actors; ++i) {
      actors_.push_back(system.spawn<TextActor>({.placement = runtime::Placement::own_thread(),
                                                 .on_failure = runtime::OnFailure::restart(1000, 1min)},
                                                std::shared_ptr<const ModelDirectory>(directory), restarts));
    }
    queue_ = system.spawn<TextQueue>({.on_failure = runtime::OnFailure::restart(1000, 1min)}, limits, actors_,
                                     progress_);
  }
  ~TextPool() {
    queue_.stop();
    for (const runtime::RefOf<TextActor>& actor : actors_) actor.stop();
  }
  TextPool(const TextPool&) = delete;
  TextPool& operator=(const TextPool&) = delete;

  template <class Job>
  runtime::Ask<typename Job::Reply> ask(Job job, runtime::CancelToken cancel = {}) const {
    return queue_.ask(std::move(job), runtime::deadline_after(kDeadline), std::move(cancel));
  }

  /// Whether one of them has stopped for good.
  bool failed() const {
    return queue_.stopped() ||
           std::any_of(actors_.begin(), actors_.end(), [](const auto& actor) { return actor.stopped(); });
  }
  /// Returns what is wrong if jobs wait and none comes to its end; else nothing.
  std::optional<std::string> problem() const { return progress_->problem(); }

  /// For tests: every one throws in a handler.
  void crash() const {
    for (const runtime::RefOf<TextActor>& actor : actors_) {
      static_cast<void>(actor.ask_blocking(protocol::InjectCrash{}, std::chrono::seconds(60)));
    }
  }

  /// Returns the number of text actors for a system with `workers` workers. It is at least two, because one tenant may
  /// occupy all but one.
  static std::uint32_t size_for(unsigned workers) { return std::clamp(workers, 2U, 4U); }
  static constexpr std::uint32_t kMaskMakers = 2;  // a pool of its own: masks do not wait behind texts

  /// Returns how many text jobs may wait; one tenant may have half of them.
  static TextQueue::Limits limits_for(std::uint32_t actors) {
    const std::size_t all = std::size_t{actors} * TextActor::kMostJobs;
    return {.all = all, .of_one = all / 2, .running_of_one = running_of_one(actors)};
  }
  /// Returns how many mask jobs may wait: one for each running reply.
  static TextQueue::Limits limits_for_masks(std::uint32_t replies) {
    return {.all = replies, .of_one = replies, .running_of_one = running_of_one(kMaskMakers)};
  }

 private:
  static constexpr std::chrono::seconds kDeadline{30};
  static std::size_t running_of_one(std::uint32_t actors) { return std::max(actors, 2U) - 1; }

  const std::shared_ptr<TextProgress> progress_ = std::make_shared<TextProgress>();
  std::vector<runtime::RefOf<TextActor>> actors_;
  runtime::RefOf<TextQueue> queue_;
};

}  // namespace reprise::actors
