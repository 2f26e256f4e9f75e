#include "protocol/api/slot_records.h"

#include <algorithm>
#include <utility>

namespace reprise::protocol {
namespace {

/// Forwards all calls and records the tokens of the first prompt and its first choice.
class NotedReply final : public StreamedReply {
 public:
  NotedReply(std::unique_ptr<Reply> reply, StreamedReply* streamed, SlotNote note)
      : reply_(std::move(reply)), streamed_(streamed), note_(std::move(note)) {}

  void admitted(const Admitted& event, std::int64_t now, std::string& out) override {
    if (contents_.model.empty()) contents_.model = event.model;
    reply_->admitted(event, now, out);
  }
  void progress(const Progress& event, std::string& out) override { reply_->progress(event, out); }
  void started(const Started& event, std::string& out) override {
    if (event.prompt_index == 0) prompt_ = event.prompt;
    reply_->started(event, out);
  }
  void delta(Delta event, std::string& out) override {
    if (event.choice == 0) {
      for (const ReplyToken& token : event.tokens) contents_.tokens.push_back(token.id);
    }
    reply_->delta(std::move(event), out);
  }
  void finished(const Finished& event, std::string& out) override { reply_->finished(event, out); }
  void done(const Done& event, std::string& out) override {
    if (prompt_ != nullptr) {
      contents_.tokens.insert(contents_.tokens.begin(), prompt_->begin(), prompt_->end());
      note_.records->put(note_.key, std::move(contents_));
    }
    reply_->done(event, out);
  }
  void embedded(Embedded event, std::string& out) override { reply_->embedded(std::move(event), out); }
  std::string_view content_type() const override { return streamed_->content_type(); }
  void keep_alive(std::string& out) override { streamed_->keep_alive(out); }
  void failed(const Error& error, std::string& out) override { streamed_->failed(error, out); }

 private:
  const std::unique_ptr<Reply> reply_;
  StreamedReply* const streamed_;  // null: not streamed
  const SlotNote note_;
  SharedTokens prompt_;
  SlotContents contents_;
};

}  // namespace

std::size_t SlotRecords::size_of(const Entry& entry) {
  const std::size_t bytes =
      sizeof(Entry) + entry.key.owner.salt.size() + entry.contents.tokens.size() * sizeof(TokenId);
  return std::max(bytes, kMinCharge);
}

std::size_t SlotRecords::bytes_of(const std::string& tenant) const {
  std::size_t bytes = 0;
  for (const Entry& entry : entries_) bytes += entry.key.owner.tenant == tenant ? size_of(entry) : 0;
  return bytes;
}

void SlotRecords::drop_oldest(const std::string* tenant) {
  const auto oldest = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return tenant == nullptr || entry.key.owner.tenant == *tenant;
  });
  bytes_ -= size_of(*oldest);
  entries_.erase(oldest);
}

void SlotRecords::put(const SlotKey& key, SlotContents contents) {
  Entry entry{.key = key, .contents = std::move(contents)};
  const std::size_t bytes = size_of(entry);
  const std::lock_guard lock(mutex_);
  take(key);
  if (bytes > kMaxTenantBytes) return;
  while (bytes_of(key.owner.tenant) + bytes > kMaxTenantBytes) drop_oldest(&key.owner.tenant);
  while (bytes_ + bytes > kMaxBytes) drop_oldest(nullptr);
  entries_.push_back(std::move(entry));
  bytes_ += bytes;
}

std::optional<SlotContents> SlotRecords::find(const SlotKey& key) const {
  const std::lock_guard lock(mutex_);
  const auto found =
      std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) { return entry.key == key; });
  if (found == entries_.end()) return std::nullopt;
  return found->contents;
}

std::size_t SlotRecords::erase(const SlotKey& key) {
  const std::lock_guard lock(mutex_);
  return take(key);
}

std::size_t SlotRecords::take(const SlotKey& key) {
  const auto found =
      std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) { return entry.key == key; });
  if (found == entries_.end()) return 0;
  const std::size_t tokens = found->contents.tokens.size();
  bytes_ -= size_of(*found);
  entries_.erase(found);
  return tokens;
}

SlotNote slot_note(std::shared_ptr<SlotRecords> records, const Json& body, std::string_view tenant) {
  SlotNote note{.records = std::move(records), .key = {.owner = {.tenant = std::string(tenant)}}};
  if (!body.is_object()) return note;
  if (const std::string* salt = body.find_string("cache_salt")) note.key.owner.salt = *salt;
  for (const char* name : {"id_slot", "slot_id"}) {
    const Json* slot = body.find(name);
    if (slot == nullptr || !slot->is_int() || slot->as_int() < 0) continue;
    note.key.slot = static_cast<std::uint32_t>(std::min<std::int64_t>(slot->as_int(), SlotRecords::kMaxSlot));
    break;
  }
  return note;
}

std::unique_ptr<Reply> noted_whole(std::unique_ptr<Reply> reply, SlotNote note) {
  return std::make_unique<NotedReply>(std::move(reply), nullptr, std::move(note));
}

std::unique_ptr<StreamedReply> noted_stream(std::unique_ptr<StreamedReply> reply, SlotNote note) {
  StreamedReply* const streamed = reply.get();
  return std::make_unique<NotedReply>(std::move(reply), streamed, std::move(note));
}

}  // namespace reprise::protocol
