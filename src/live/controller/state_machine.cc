#include "live/controller/state_machine.h"

namespace paceline::controller {
namespace {

class Core final : public StateMachine {
 public:
  void restore(const control::JournalRecord& record) override { core_.restore(record); }
  void step(Instant now, const control::Event& event) override { core_.step(now, event); }
  control::Effects take_effects() override { return core_.take_effects(); }
  std::optional<Instant> next_deadline() const override { return core_.next_deadline(); }
  bool is_finished() const override { return core_.is_finished(); }

 private:
  control::ControllerCore core_;
};

}  // namespace

std::unique_ptr<StateMachine> make_controller_core() { return std::make_unique<Core>(); }

}  // namespace paceline::controller
