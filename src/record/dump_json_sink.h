// The folder of docs/formats/msprobe_dump.md: dump.json, the files beside it and those of tensors.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "record/document.h"
#include "record/side_files.h"
#include "record/sink.h"
#include "record/tensor_files.h"

namespace vernier {

class DumpJsonSink : public Sink {
 public:
  // Creates the folder and its files, without records.
  static Result<std::unique_ptr<Sink>> Open(const SinkContext& context, RecordFolder where);

  Result<Done> Append(Entry& entry, std::span<const Field> fields) override;
  Result<std::vector<Field>> Reopen(const Entry& entry) override;
  Result<Done> Arrange(std::span<Entry* const> entries) override;
  Result<Done> Flush(bool complete) override;
  bool stores() const override { return files_.has_value(); }
  Stored& Store(const Place& place, Elements elements) override;
  bool keeps() const override { return files_.has_value(); }
  Kept Keep(const Place& place, Elements elements, std::uint64_t number) override;
  Kept KeepAgain(const Place& place, Stored& known, std::uint64_t number) override;
  Stored& StoreAgain(const Place& place, Stored& known) override;
  void Drop(Stored& stored) override;
  std::string_view NameOf(const Stored& stored) const override;
  void AddStack(std::string_view name, std::uint32_t stack) override;
  void SetParent(std::string_view name, std::optional<std::string_view> parent,
                 std::optional<std::int64_t> micro_step) override;
  void SetState(std::string_view state) override;
  Result<Done> KeepUp() override;

 private:
  DumpJsonSink(const SinkContext& context, RecordFolder where)
      : context_(context), where_(std::move(where)), stacks_(context.stacks) {}
  Result<Done> Create();
  Result<Done> WriteBeside();
  Stored& Named(const Place& place, StoredFile& file);

  SinkContext context_;
  RecordFolder where_;
  Document document_;
  std::optional<TensorFiles> files_;
  IdentityFile identity_;
  StackFile stacks_;
  ConstructFile construct_;
  std::string value_;  // of the record that is appended
};

}  // namespace vernier
