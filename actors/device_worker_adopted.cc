// What a registry that began anew asks for.

#include "actors/device_worker.h"

namespace reprise::actors {

protocol::Dropped DeviceWorker::on(protocol::DropAdopted job) {
  protocol::Dropped dropped;
  LoadedArch* arch = arch_of(job.arch.generation);
  if (arch == nullptr) return dropped;
  std::vector<protocol::SnapshotId> adopted;
  for (const auto& [number, record] : arch->snapshots()) {
    if (record.adopted) adopted.push_back({.generation = arch->generation(), .number = number});
  }
  for (const protocol::SnapshotId id : adopted) dropped.freed_bytes += arch->remove(id);
  dropped.adopted_bytes = arch->adopted().bytes();
  memory_changed();
  kick();
  return dropped;
}

}  // namespace reprise::actors
