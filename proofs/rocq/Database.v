(** All parts together: a small private database.

    Rows are ranked and cut within each person. A question sums a bounded value over the copy, a count being a sum of
    zeros and ones. Integer Laplace noise is scaled to what one person moves, and the ledger's filter holds the
    budget. Nothing is assumed of the questions but their bounds and prices. *)

From Coq Require Import Reals Lra Lia List ZArith QArith Qreals.
From Sfumato Require Import Dist Privacy Geometric Filter Copy.
Import ListNotations.
Open Scope R_scope.

Section Database.
Context {Person Row Value Coin : Type}.
Variables (EqR : forall a b : Row, {a = b} + {a <> b}) (EqP : forall u v : Person, {u = v} + {u <> v})
  (EqV : forall a b : Value, {a = b} + {a <> b}) (EC : decidable_equality Coin).
Variables (owner : Row -> Person) (draw : Person -> Row * nat -> Z) (cap : nat) (unique : list (Row -> option Value))
  (everyone : list Person).
Hypotheses (cap_pos : (0 < cap)%nat) (everyone_once : NoDup everyone).

(** Neighbours hold the same rows of all people but one, in any order. *)
Definition neighbours (D D' : list Row) : Prop :=
  distinct_draws EqR EqP owner draw D /\ exists u, differ_in EqP owner u D D'.

Record question := {
  value : Row -> Z;
  low : Z; high : Z;
  inside : forall r, (low <= value r <= high)%Z;
  around_zero : (low <= 0 <= high)%Z;
  wide : (low < high)%Z;
  price : Q;
  price_pos : (0 < price)%Q
}.

(** What one person moves: the cap times the width. *)
Definition reach (q : question) : nat := (cap * Z.to_nat (high q - low q))%nat.

Definition truth (q : question) (D : list Row) : Z :=
  sumZ (value q) (copy EqR EqP owner draw cap EqV unique everyone D).

Lemma reach_pos q : 0 < INR (reach q).
Proof. apply lt_0_INR. unfold reach. pose proof (wide q). nia. Qed.

(** The ratio of the noise: e^(-price/reach). *)
Definition scale (q : question) : R := exp (- (Q2R (price q) / INR (reach q))).

Lemma scale_range q : 0 < scale q < 1.
Proof.
  split; [apply exp_pos|]. unfold scale. rewrite <- exp_0. apply exp_increasing.
  pose proof (reach_pos q). pose proof (price_pos q) as P. apply Qlt_Rlt in P. unfold Q2R in P at 1. simpl in P.
  assert (0 < Q2R (price q) / INR (reach q)); [|lra]. apply Rmult_lt_0_compat; [lra|]. apply Rinv_0_lt_compat. auto.
Qed.

Definition answer (q : question) (D : list Row) : law Z := noisy (scale q) (scale_range q) (truth q D).

Lemma answer_private q : private neighbours (exp (Q2R (price q))) (answer q).
Proof.
  assert (E : (/ scale q) ^ reach q = exp (Q2R (price q))).
  { unfold scale. rewrite <- exp_Ropp, Ropp_involutive.
    assert (P : forall x n, exp x ^ n = exp (INR n * x)).
    { intros x n. induction n as [|n IH]; [simpl; rewrite Rmult_0_l, exp_0; reflexivity|].
      rewrite S_INR, Rmult_plus_distr_r, exp_plus, <- IH, Rmult_1_l. simpl. ring. }
    rewrite P. f_equal. pose proof (reach_pos q). field. lra. }
  rewrite <- E. apply geometric_mechanism. intros D D' (DD & u & F).
  pose proof (sum_sensitivity_replace EqR EqP owner draw cap EqV unique u everyone D D' everyone_once DD F
                (value q) (low q) (high q) (inside q) (around_zero q)) as S.
  unfold reach, truth. pose proof (wide q). apply Nat2Z.inj_le.
  rewrite Zabs2Nat.id_abs, Nat2Z.inj_mul, Z2Nat.id by lia. exact S.
Qed.

(** Theorem. Whatever analysts ask of this database, adaptively, with retries and lost replies, until they stop: the
    whole interaction is e^budget-private for each person. *)
Theorem database_private (budget : Q) (kept : list entry -> question -> option Z) (s : @analyst question Z Coin) :
  (0 <= budget)%Q ->
  private neighbours (exp (Q2R budget)) (transcript (filter_rule price budget kept) (fun _ => answer) Z.eq_dec EC s).
Proof. intros B. apply pure_filter_adaptive; auto. apply answer_private. Qed.
End Database.
