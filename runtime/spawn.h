#pragma once
// Making an actor: the generated half of Actor::spawn and System::spawn.
//
// Threading: on the spawner's thread; with a parent, in a turn of the parent.

#include <memory>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>

#include "runtime/actor_class.h"
#include "runtime/dispatch.h"

namespace reprise::runtime {

/// Thrown by spawn() when the system, or the home that was asked for, is stopping.
class SystemStopped : public std::runtime_error {
 public:
  SystemStopped() : std::runtime_error("the actor system is stopping") {}
};

namespace actor_detail {

/// Lets the constructor of Actor find its cell.
class Construction {
 public:
  explicit Construction(Cell& cell);
  ~Construction();
  static Cell* current();

 private:
  Cell* outer_;
};

/// Keeps copies of the arguments, to make the actor again.
template <class A, class... Args>
class Remake : public ActorFactory {
 public:
  explicit Remake(const Args&... args) : arguments_(args...) {}
  Actor* make(Cell& cell) override {
    const Construction construction(cell);
    return std::apply([&](const Args&... args) -> Actor* { return new (cell.actor_storage()) A(args...); },
                      arguments_);
  }

 private:
  std::tuple<Args...> arguments_;
};

/// A new cell that nobody knows yet. Throws SystemStopped.
CellPtr make_cell(SystemCore& core, Cell* parent, const ActorType& type, std::size_t actor_bytes,
                  std::size_t actor_alignment, const SpawnOptions& options);
/// Enters the cell, now with its actor, into its home. Throws SystemStopped.
void launch_cell(Cell& cell);

template <class A, class... Args>
RefOf<A> spawn(SystemCore& core, Cell* parent, const SpawnOptions& options, Args&&... args) {
  static_assert(std::is_base_of_v<Actor, A>, "an actor class derives from Actor");
  CellPtr cell = make_cell(core, parent, kType<A>, sizeof(A), alignof(A), options);
  if (options.on_failure.action == OnFailure::Do::kRestart) {
    if constexpr ((std::is_copy_constructible_v<std::decay_t<Args>> && ...) &&
                  std::is_constructible_v<A, const std::decay_t<Args>&...>) {
      cell->set_factory(std::make_unique<Remake<A, std::decay_t<Args>...>>(args...));
    } else {
      throw std::invalid_argument(
          std::string("an actor that is to be restarted needs arguments that can be copied: ") +
          kType<A>.name);
    }
  }
  {
    const Construction construction(*cell);
    cell->set_actor(new (cell->actor_storage()) A(std::forward<Args>(args)...));
  }
  launch_cell(*cell);
  return RefOf<A>(std::move(cell));
}

SystemCore& core_of(const Cell& cell);

}  // namespace actor_detail

template <class A, class... Args>
RefOf<A> Actor::spawn(SpawnOptions options, Args&&... args) {
  REPRISE_CHECK(Cell::current() == cell_, "a child was spawned outside its parent's turns");
  return actor_detail::spawn<A>(actor_detail::core_of(*cell_), cell_, options, std::forward<Args>(args)...);
}

}  // namespace reprise::runtime
