// `reprise snapshot`: maintains a snapshot folder (docs/formats/snapshot.md), also while servers use it.
//
//   ls       lists the snapshots
//   verify   checks the folder (protocol/snapshots/folder_check.h); --recompute: also against recomputed states
//   gc       removes unreferenced files, and snapshots beyond the size or age limit
//   export   copies snapshots to another folder, sealed with another secret
//   import   copies snapshots from another folder into a namespace of this one

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>

#include "base/json.h"
#include "protocol/http/key_ring.h"
#include "protocol/snapshots/folder_check.h"
#include "protocol/snapshots/seal.h"
#include "tools/reprise/commands.h"
#include "tools/reprise/engine_flags.h"
#include "tools/reprise/snapshot_files.h"
#include "tools/reprise/snapshot_recompute.h"

namespace reprise::tools {

using namespace protocol::snapshots;

namespace {

struct SnapshotOptions {
  std::string folder{};
  std::string secret_file{};        // empty: the default path
  std::string other_folder{};       // export, import
  std::string other_secret_file{};  // secret of the other folder
  std::string tenant{};             // import: target namespace; export: source namespace, empty: all
  std::string cache_salt{};
  std::uint64_t disk_mb = 0;  // gc; 0: unlimited
  double ttl = 0;             // gc, seconds; 0: unlimited
  bool json = false;          // ls
  bool recompute = false;     // verify, import
  EngineFlags engine{};       // for --recompute
};

Key key_in(const std::string& file, const char* flag) {
  const std::string path = file.empty() ? usual_secret_file() : file;
  if (path.empty())
    throw UsageError(std::string(flag) +
                     ": HOME is not set, so there is no default file for the secret; name one");
  const auto key = key_from_file(path);
  if (!key.ok()) throw UsageError(std::string(flag) + ": " + key.error());
  return *key;
}

std::string in_hex(std::uint64_t number) {
  char text[20];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(number));
  return text;
}

int list(const SnapshotFolder& folder, const Key& master, bool json) {
  for (const ListedSnapshot& one : list_snapshots(folder, master)) {
    if (!one.manifest) {
      std::fprintf(stderr, "reprise: m%s: %s: %s\n", one.file.id.hex().c_str(),
                   std::string(name_of(one.refused.why)).c_str(), one.refused.message.c_str());
      continue;
    }
    const Manifest& manifest = *one.manifest;
    if (json) {
      const Json line{{"id", one.file.id.hex()},
                      {"namespace", manifest.name_space},
                      {"model", in_hex(manifest.kind.model)},
                      {"arithmetic", in_hex(manifest.kind.arithmetic)},
                      {"tokens", manifest.stored},
                      {"origin", manifest.origin},
                      {"bytes", manifest.state_bytes()},
                      {"created", manifest.created},
                      {"used", one.file.used}};
      std::printf("%s\n", line.dump().c_str());
    } else {
      std::printf("%s  %8u tokens  %-10s  %10.2f MiB  model %s  arithmetic %s  '%s'\n",
                  one.file.id.hex().c_str(), manifest.stored, manifest.origin.c_str(),
                  static_cast<double>(manifest.state_bytes()) / (1 << 20),
                  in_hex(manifest.kind.model).c_str(), in_hex(manifest.kind.arithmetic).c_str(),
                  manifest.name_space.c_str());
    }
  }
  return 0;
}

/// Returns nullopt unless --recompute was given.
std::optional<SnapshotRecompute> recomputing(const SnapshotOptions& options) {
  if (!options.recompute) return std::nullopt;
  EngineFlags flags = options.engine;
  flags.model = model_or_builtin(flags.model);
  return std::optional<SnapshotRecompute>(std::in_place, flags);
}

/// Returns why a snapshot cannot be confirmed as right; nullopt if it is. Counts it as `unjudged` instead if it
/// cannot be recomputed here.
std::optional<Refused> judge(const SnapshotFolder& folder, const Key& master, const Manifest& manifest,
                             SnapshotRecompute& recompute, std::size_t& unjudged) {
  const auto state = read_state(folder, master, manifest);
  if (!state.ok()) return state.error();
  if (recompute.can_judge(manifest)) return recompute.compare(manifest, *state);
  ++unjudged;
  return std::nullopt;
}

void print_problem(const RecordId& id, const Refused& refused) {
  std::printf("%s  %s: %s\n", id.hex().c_str(), std::string(name_of(refused.why)).c_str(),
              refused.message.c_str());
}

int verify(const SnapshotFolder& folder, const Key& master, const SnapshotOptions& options) {
  const auto checked = check_folder(folder, master);
  if (!checked.ok()) throw std::runtime_error(checked.error().message);
  for (const FolderCheck::Problem& problem : checked->snapshots_wrong) {
    print_problem(problem.file.id, problem.refused);
  }
  for (const FolderCheck::Problem& problem : checked->others_wrong) {
    std::printf("%s  %s: %s\n", problem.file.name.c_str(), std::string(name_of(problem.refused.why)).c_str(),
                problem.refused.message.c_str());
  }
  std::size_t differ = 0, unjudged = 0;
  if (std::optional<SnapshotRecompute> recompute = recomputing(options)) {
    std::set<RecordId> wrong;
    for (const FolderCheck::Problem& problem : checked->snapshots_wrong) wrong.insert(problem.file.id);
    for (const ListedSnapshot& one : list_snapshots(folder, master)) {
      if (!one.manifest || wrong.contains(one.file.id)) continue;
      const auto refused = judge(folder, master, *one.manifest, *recompute, unjudged);
      if (!refused) continue;
      ++differ;
      print_problem(one.file.id, *refused);
    }
  }
  std::printf("%zu snapshots valid, %zu not\n", checked->snapshots - differ,
              checked->snapshots_wrong.size() + differ);
  if (!checked->others_wrong.empty()) {
    std::printf("%zu other records are not valid\n", checked->others_wrong.size());
  }
  if (checked->unreferenced > 0) {
    std::printf("%zu files belong to no snapshot (%.2f MiB); the next collection removes them\n",
                checked->unreferenced, static_cast<double>(checked->unreferenced_bytes) / (1 << 20));
  }
  if (options.recompute) {
    std::printf("%zu of them were not recomputed: they belong to another model, build, device or adapter\n",
                unjudged);
  }
  return checked->is_whole() && differ == 0 ? 0 : 1;
}

int collect(const SnapshotFolder& folder, const SnapshotOptions& options) {
  const auto collected =
      folder.collect({.max_bytes = options.disk_mb == 0 ? UINT64_MAX : options.disk_mb << 20,
                      .ttl = std::chrono::seconds(static_cast<std::int64_t>(options.ttl)),
                      .now = std::time(nullptr)});
  if (!collected.ok()) throw std::runtime_error(collected.error().message);
  if (!*collected) {
    std::fputs("reprise: a server is writing to the folder; try again\n", stderr);
    return 1;
  }
  std::printf("%zu files removed; snapshots now take %.2f MiB\n", (*collected)->going.size(),
              static_cast<double>((*collected)->bytes_left) / (1 << 20));
  return 0;
}

/// Copies the snapshots of owner `of` (nullopt: all) from `from` to `to`; with `recompute`, only those it
/// confirms as right.
int copy(const SnapshotFolder& from, const Key& from_master, const SnapshotFolder& to, const Key& to_master,
         const std::optional<std::string>& of, const std::optional<std::string>& into,
         SnapshotRecompute* recompute) {
  if (const auto trouble = to.prepare()) throw UsageError(trouble->message);
  std::size_t copied = 0, failed = 0;
  for (const ListedSnapshot& one : list_snapshots(from, from_master)) {
    if (one.manifest && of && parts_of(one.manifest->name_space).owner != *of) continue;
    std::optional<Refused> refused;
    if (!one.manifest) refused = one.refused;
    std::size_t unjudged = 0;
    if (!refused && recompute != nullptr) {
      refused = judge(from, from_master, *one.manifest, *recompute, unjudged);
    }
    if (!refused && unjudged > 0) {
      refused = Refused{
          Refusal::kArithmetic,
          "the snapshot cannot be recomputed here: it belongs to another model, build, device or adapter"};
    }
    if (!refused) refused = copy_snapshot(from, from_master, *one.manifest, to, to_master, into);
    ++(refused ? failed : copied);
    if (refused) {
      std::fprintf(stderr, "reprise: m%s: %s: %s\n", one.file.id.hex().c_str(),
                   std::string(name_of(refused->why)).c_str(), refused->message.c_str());
    }
  }
  std::printf("%zu snapshots copied, %zu not\n", copied, failed);
  return failed == 0 ? 0 : 1;
}

class SnapshotCommand {
 public:
  explicit SnapshotCommand(CLI::App& app);
  CLI::App* app() const { return command_; }
  /// Returns the exit status: 1 if a snapshot is damaged or an operation failed.
  int run() const;

 private:
  void add_recompute(CLI::App& sub, const char* help);

  CLI::App* command_;
  CLI::App* list_;
  CLI::App* verify_;
  CLI::App* collect_;
  CLI::App* export_;
  CLI::App* import_;
  SnapshotOptions options_;
};

SnapshotCommand::SnapshotCommand(CLI::App& app)
    : command_(app.add_subcommand(
          "snapshot", "List, check, clean up and copy the snapshots in the folder of serve --cache-dir")) {
  command_->require_subcommand(1);
  const auto add = [this](const char* name, const char* help) {
    CLI::App* sub = command_->add_subcommand(name, help);
    sub->add_option("--cache-dir", options_.folder, "Folder of snapshots")->required();
    sub->add_option("--cache-secret-file", options_.secret_file,
                    "File with the secret of that folder; default: reprise/cache.secret in $XDG_STATE_HOME "
                    "or ~/.local/state");
    return sub;
  };
  list_ = add("ls", "List the snapshots, one per line");
  list_->add_flag("--json", options_.json, "Print one JSON object per line");
  verify_ = add("verify", "Check the folder: read every record and compare it with its checksums");
  collect_ = add("gc", "Remove unreferenced files, and snapshots over a limit of size or age");
  collect_->add_option("--disk-mb", options_.disk_mb, "Maximum size of the folder, in MiB; 0: no limit");
  collect_->add_option("--ttl", options_.ttl, "Seconds after which an unused snapshot is removed; 0: never")
      ->check(CLI::Range(0.0, 1e10));
  export_ = add("export", "Copy snapshots to another folder, sealed with another secret");
  import_ = add("import", "Copy snapshots of another folder into one tenant's");
  for (CLI::App* sub : {export_, import_}) {
    sub->add_option(sub == export_ ? "--to" : "--from", options_.other_folder,
                    "The other folder of snapshots")
        ->required();
    sub->add_option("--with-secret-file", options_.other_secret_file,
                    "File with the secret of the other folder")
        ->required();
    sub->add_option(
        "--tenant", options_.tenant,
        "Tenant that the snapshots belong to, or are imported for; servers without API keys have none");
    sub->add_option("--cache-salt", options_.cache_salt,
                    "cache_salt that the snapshots belong to, or are imported for");
  }
  add_recompute(*verify_, "Also recompute every snapshot from its tokens and compare");
  add_recompute(*import_, "Copy only snapshots that are bitwise identical when recomputed from their tokens");
}

void SnapshotCommand::add_recompute(CLI::App& sub, const char* help) {
  sub.add_flag("--recompute", options_.recompute, help);
  sub.add_option("--model", options_.engine.model,
                 "With --recompute: model to compute with; default: the built-in model");
  sub.add_option("--device", options_.engine.device,
                 "With --recompute: where to compute: cpu, cuda:N or auto");
  sub.add_option("--compute", options_.engine.compute,
                 "With --recompute: arithmetic, as of the server that wrote the snapshots");
  sub.add_option("--kv-dtype", options_.engine.kv_dtype,
                 "With --recompute: type of keys and values, as of the server that wrote the snapshots");
  sub.add_option("--threads", options_.engine.threads,
                 "With --recompute: CPU threads to compute with; 0: one per core");
}

int SnapshotCommand::run() const {
  const SnapshotFolder folder(options_.folder);
  if (!import_->parsed()) {  // import creates the folder
    if (const auto why = unreadable(options_.folder)) throw std::runtime_error("--cache-dir: " + *why);
  }
  if (collect_->parsed()) return collect(folder, options_);
  const Key master = key_in(options_.secret_file, "--cache-secret-file");
  if (list_->parsed()) return list(folder, master, options_.json);
  if (verify_->parsed()) return verify(folder, master, options_);
  const SnapshotFolder other(options_.other_folder);
  if (import_->parsed()) {
    if (const auto why = unreadable(options_.other_folder)) throw std::runtime_error("--from: " + *why);
  }
  const Key other_master = key_in(options_.other_secret_file, "--with-secret-file");
  const std::string name_space = protocol::name_space_of(options_.tenant, options_.cache_salt);
  if (export_->parsed()) {
    const bool all = options_.tenant.empty() && options_.cache_salt.empty();
    return copy(folder, master, other, other_master, all ? std::nullopt : std::optional(name_space),
                std::nullopt, nullptr);
  }
  if (options_.tenant.empty() && options_.cache_salt.empty() && !options_.recompute) {
    throw UsageError(
        "import: whose snapshots are they? Give --tenant NAME or --cache-salt SALT; or --recompute, to "
        "import for everyone those that prove correct");
  }
  std::optional<SnapshotRecompute> recompute = recomputing(options_);
  return copy(other, other_master, folder, master, std::nullopt, name_space,
              recompute ? &*recompute : nullptr);
}

}  // namespace

Command add_snapshot(CLI::App& program) {
  const auto command = std::make_shared<SnapshotCommand>(program);
  return {command->app(), [command] { return command->run(); }};
}

}  // namespace reprise::tools
