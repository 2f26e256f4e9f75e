#pragma once
// Makes an actor object in its cell: once when it is spawned, and again when it is restarted.
//
// Threading: make() on the spawner's thread the first time, on the actor's home afterwards.

namespace reprise::runtime {

class Actor;
class Cell;

class ActorFactory {
 public:
  virtual ~ActorFactory() = default;
  /// In cell.actor_storage(). Throws what the constructor throws.
  virtual Actor* make(Cell& cell) = 0;
};

}  // namespace reprise::runtime
