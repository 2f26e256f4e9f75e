#pragma once
// TextPool: the text actors of an engine, side by side, so that one long text holds up nobody but those
// behind it. A job goes to whoever has the fewest; where all have as many as they may, it is refused as
// overloaded.
//
// Failure: its actors'. One that fails without end stops for good and gets no more jobs.
//
// Threading: ask() within an actor's turn, as all asks; the rest from any thread.

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "actors/request/text_actor.h"
#include "base/bounded_count.h"
#include "runtime/system.h"

namespace reprise::actors {

class TextPool {
 public:
  TextPool(runtime::System& system, std::uint32_t actors, const std::shared_ptr<ModelDirectory>& directory,
           const std::shared_ptr<Restarts>& restarts) {
    using namespace std::chrono_literals;
    for (std::uint32_t i = 0; i < actors; ++i) {
      members_.push_back(
          {.actor = system.spawn<TextActor>({.placement = runtime::Placement::own_thread(),
                                             .on_failure = runtime::OnFailure::restart(1000, 1min)},
                                            std::shared_ptr<const ModelDirectory>(directory), restarts),
           .jobs = std::make_shared<BoundedCount>(TextActor::kMostJobs)});
    }
  }
  ~TextPool() {
    for (const Member& member : members_) member.actor.stop();
  }
  TextPool(const TextPool&) = delete;
  TextPool& operator=(const TextPool&) = delete;

  template <class Job, class Request>
  runtime::Ask<typename Job::Reply> ask(Request request, runtime::CancelToken cancel = {}) const {
    using protocol::ServiceError;
    using protocol::ServiceErrorCode;
    using Answered = runtime::Result<typename Job::Reply>;
    const Member* least = nullptr;
    for (const Member& member : members_) {
      if (member.actor.stopped()) continue;
      if (least == nullptr || member.jobs->now() < least->jobs->now()) least = &member;
    }
    if (least == nullptr) {
      return runtime::Ask<typename Job::Reply>(Answered(typename Job::Reply(
          ServiceError{ServiceErrorCode::kUnavailable, "what tokenises and renders has failed too often"})));
    }
    std::shared_ptr<void> place = least->jobs->take();
    if (!place) {
      return runtime::Ask<typename Job::Reply>(Answered(typename Job::Reply(ServiceError{
          ServiceErrorCode::kOverloaded, "too many texts wait already", "", std::chrono::seconds(1)})));
    }
    return least->actor.ask(Job{std::move(request), std::move(place)}, kDeadline, std::move(cancel));
  }

  /// Whether one of them has stopped for good.
  bool failed() const {
    return std::any_of(members_.begin(), members_.end(),
                       [](const Member& member) { return member.actor.stopped(); });
  }

  /// For tests: every one throws in a handler.
  void crash() const {
    for (const Member& member : members_) {
      static_cast<void>(member.actor.ask_blocking(protocol::InjectCrash{}, std::chrono::seconds(60)));
    }
  }

  /// So many for a system with this many workers; and for masks, which do not wait behind texts.
  static std::uint32_t size_for(unsigned workers) { return std::clamp(workers, 1U, 4U); }
  static std::uint32_t size_for_masks(unsigned workers) { return std::clamp(workers / 4, 1U, 2U); }

 private:
  static constexpr std::chrono::seconds kDeadline{30};

  struct Member {
    runtime::RefOf<TextActor> actor;
    std::shared_ptr<BoundedCount> jobs;
  };
  std::vector<Member> members_;
};

}  // namespace reprise::actors
