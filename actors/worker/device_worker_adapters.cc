// Adapters of the loaded models: read beside the steps, taken in and dropped between two of them.

#include "actors/worker/device_worker.h"
#include "base/digest.h"
#include "models/files/load_error.h"

namespace reprise::actors {

using protocol::JobError;
using protocol::JobFault;
using AdapterAnswer = protocol::JobResult<protocol::AdapterLoaded>;

void DeviceWorker::on(protocol::LoadAdapter job, runtime::ReplyTo<AdapterAnswer> reply) {
  const LoadedArch* arch = arch_of(job.arch.generation);
  if (arch == nullptr || arch->failed()) {
    return reply.answer(AdapterAnswer(JobError{JobFault::kUnknown, "no such model is loaded"}));
  }
  // Its own copy of what describes the model, which may go meanwhile.
  auto config = std::make_shared<const models::ModelConfig>(arch->model().config());
  adapter_loads_.add(
      {.make =
           [path = job.path, config, generation = job.arch.generation](const std::atomic<bool>&) {
             return ReadAdapter{generation, models::Adapter::open(path, *config)};
           },
       .aside = true,
       .done = [me = self(*this)] { me.tell(AdapterRead{}); },
       .reply = std::move(reply)});
}

void DeviceWorker::on(AdapterRead) {
  AdapterLoads::Result read = adapter_loads_.take();
  if (read.error) return read.reply.answer(AdapterAnswer(*read.error));
  adapters_read_.push_back(std::move(read));
  kick();
}

// In every round until there is memory for it, or none can be had.
void DeviceWorker::take_in_adapters() {
  for (AdapterLoads::Result& read : std::exchange(adapters_read_, {})) {
    const models::Adapter& adapter = read.made->adapter;
    LoadedArch* arch = arch_of(read.made->generation);
    if (arch == nullptr || arch->failed()) {
      read.reply.answer(AdapterAnswer(JobError{JobFault::kUnknown, "the model was unloaded"}));
      continue;
    }
    const std::uint64_t bytes = arch->model().adapter_bytes(adapter);
    const Room room = memory_.find({.bytes = bytes + state_.promised_bytes(), .dispensable = true});
    if (room == Room::kComing) {
      adapters_read_.push_back(std::move(read));
    } else if (room == Room::kNone || !state_.budget().take(bytes)) {
      read.reply.answer(AdapterAnswer(JobError{JobFault::kNoMemory,
                                               "the adapter needs " + std::to_string(bytes) +
                                                   " bytes of the device's memory; free are " +
                                                   std::to_string(state_.budget().free()),
                                               bytes}));
    } else {
      read.reply.answer(take_in(*arch, adapter, bytes));
    }
  }
}

AdapterAnswer DeviceWorker::take_in(LoadedArch& arch, const models::Adapter& adapter, std::uint64_t bytes) {
  const protocol::AdapterId id = arch.add_adapter(bytes);
  try {
    arch.runner().idle_model().add_adapter(id.number, adapter);
  } catch (const std::bad_alloc&) {
    arch.drop_adapter(id.number);
    return JobError{JobFault::kNoMemory, "no memory for the adapter", bytes};
  } catch (const models::LoadError& error) {  // names the matrix
    arch.drop_adapter(id.number);
    return JobError{JobFault::kBadJob, error.what()};
  }
  return protocol::AdapterLoaded{
      .adapter = id,
      .matrices = static_cast<std::uint32_t>(adapter.parts().size()),
      .rank = static_cast<std::uint32_t>(adapter.largest_rank()),
      .bytes = bytes,
      .fingerprint = Digest().add(arch.fingerprint().all()).add(adapter.digest()).value()};
}

void DeviceWorker::on(protocol::DropAdapter job, runtime::ReplyTo<protocol::AdapterDropped> reply) {
  const StateTable* table = state_.find(job.adapter.generation);
  if (table != nullptr && table == step_.table()) {
    adapter_drops_after_step_.emplace_back(job.adapter, std::move(reply));
    return;
  }
  drop_adapter(job.adapter, std::move(reply));
}

void DeviceWorker::drop_adapter(protocol::AdapterId adapter,
                                runtime::ReplyTo<protocol::AdapterDropped> reply) {
  protocol::AdapterDropped dropped;
  LoadedArch* arch = arch_of(adapter.generation);
  if (arch != nullptr && arch->has_adapter(adapter)) {
    const JobError gone{JobFault::kUnknown, "the adapter was unloaded"};
    admission_.refuse_all(adapter, gone);
    const std::uint64_t before = state_.budget().used();
    std::vector<SequenceRun*> users;
    for (auto& [number, run] : arch->sequences()) {
      if (run.adapter == adapter.number) users.push_back(&run);
    }
    for (SequenceRun* run : users) {
      run->end_work(gone);
      close(*arch, *run);
    }
    dropped = arch->drop_adapter(adapter.number);
    dropped.sequences = static_cast<std::uint32_t>(users.size());
    dropped.freed_bytes = before - state_.budget().used();
    arch->runner().idle_model().remove_adapter(adapter.number);
    memory_.memory_changed();
  }
  publish();  // whoever learns that it is gone sees the memory free
  reply.answer(dropped);
  kick();
}

}  // namespace reprise::actors
