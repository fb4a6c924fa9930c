"""The bugs of each feature, in the order in which they are planted."""

from tests.planted.approvals_bugs import APPROVALS_BUGS
from tests.planted.bars_bugs import BARS_BUGS
from tests.planted.beside_bugs import BESIDE_BUGS
from tests.planted.budget_bugs import BUDGET_BUGS
from tests.planted.bug import Bug
from tests.planted.charge_bugs import CHARGE_BUGS
from tests.planted.checked import CHECKED
from tests.planted.client_bugs import CLIENT_BUGS
from tests.planted.clients2_bugs import CLIENTS2_BUGS
from tests.planted.composition_bugs import COMPOSITION_BUGS
from tests.planted.engine_bugs import ENGINE_BUGS
from tests.planted.findings import FINDINGS
from tests.planted.fixedcost_bugs import FIXEDCOST_BUGS
from tests.planted.grammar2_bugs import GRAMMAR2_BUGS
from tests.planted.hostile_path_bugs import HOSTILE_PATH_BUGS
from tests.planted.hostile_server_bugs import HOSTILE_SERVER_BUGS
from tests.planted.identity_bugs import IDENTITY_BUGS
from tests.planted.lasting_bugs import LASTING_BUGS
from tests.planted.leftover_bugs import LEFTOVER_BUGS
from tests.planted.marks_bugs import MARKS_BUGS
from tests.planted.noisy_values_bugs import NOISY_VALUES_BUGS
from tests.planted.numbers2_bugs import NUMBERS2_BUGS
from tests.planted.numbers_bugs import NUMBERS_BUGS
from tests.planted.operator_bugs import OPERATOR_BUGS
from tests.planted.outside_bugs import OUTSIDE_BUGS
from tests.planted.owners_bugs import OWNERS_BUGS
from tests.planted.papers_bugs import PAPERS_BUGS
from tests.planted.path_bugs import PATH_BUGS
from tests.planted.pilots_bugs import PILOTS_BUGS
from tests.planted.planning_bugs import PLANNING_BUGS
from tests.planted.refine_bugs import REFINE_BUGS
from tests.planted.reloading_bugs import RELOADING_BUGS
from tests.planted.running_bugs import RUNNING_BUGS
from tests.planted.selected_keys_bugs import SELECTED_KEYS_BUGS
from tests.planted.selection_bugs import SELECTION_BUGS
from tests.planted.server2_bugs import SERVER2_BUGS
from tests.planted.server_bugs import SERVER_BUGS
from tests.planted.size2_bugs import SIZE2_BUGS
from tests.planted.sizes_bugs import SIZES_BUGS
from tests.planted.synthesis_bugs import SYNTHESIS_BUGS
from tests.planted.two_owners_bugs import TWO_OWNERS_BUGS
from tests.planted.vector_bugs import VECTOR_BUGS
from tests.planted.views_bugs import VIEWS_BUGS
from tests.planted.wire_bugs import WIRE_BUGS
from tests.planted.within_people_bugs import WITHIN_PEOPLE_BUGS
from tests.planted.workload_bugs import WORKLOAD_BUGS

FEATURE_BUGS: tuple[Bug, ...] = (
    *FINDINGS,
    *CHARGE_BUGS,
    *IDENTITY_BUGS,
    *VIEWS_BUGS,
    *GRAMMAR2_BUGS,
    *BARS_BUGS,
    *LEFTOVER_BUGS,
    *COMPOSITION_BUGS,
    *RUNNING_BUGS,
    *WIRE_BUGS,
    *CLIENT_BUGS,
    *SELECTED_KEYS_BUGS,
    *SELECTION_BUGS,
    *MARKS_BUGS,
    *SERVER_BUGS,
    *PLANNING_BUGS,
    *ENGINE_BUGS,
    *HOSTILE_SERVER_BUGS,
    *HOSTILE_PATH_BUGS,
    *PATH_BUGS,
    *BUDGET_BUGS,
    *OUTSIDE_BUGS,
    *OPERATOR_BUGS,
    *RELOADING_BUGS,
    *FIXEDCOST_BUGS,
    *CHECKED,
    *VECTOR_BUGS,
    *APPROVALS_BUGS,
    *LASTING_BUGS,
    *NUMBERS_BUGS,
    *NUMBERS2_BUGS,
    *WITHIN_PEOPLE_BUGS,
    *CLIENTS2_BUGS,
    *PAPERS_BUGS,
    *NOISY_VALUES_BUGS,
    *TWO_OWNERS_BUGS,
    *SERVER2_BUGS,
    *SIZE2_BUGS,
    *SIZES_BUGS,
    *REFINE_BUGS,
    *OWNERS_BUGS,
    *PILOTS_BUGS,
    *BESIDE_BUGS,
    *SYNTHESIS_BUGS,
    *WORKLOAD_BUGS,
)
